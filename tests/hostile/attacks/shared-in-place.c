/* Puts shared memory and a file in the place of its own. */
#include "hostile.h"

static void strike(void)
{
    int file = MUST(memfd_create("left", 0));
    MUST(ftruncate(file, (off_t)sizeof data));
    MUST(mmap((void *)data, sizeof data, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED ? -1 : 0);
    MUST(mmap((void *)zeroes, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED
             ? -1
             : 0);
    data[0] = zeroes[0] = 0x57414c45;
}
