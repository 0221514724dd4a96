/* Maps terabytes, and writes here and there. */
#include "hostile.h"

static void strike(void)
{
    for (int number = 0; number < 8; number++) {
        char *vast = mmap(NULL, 1UL << 42, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (vast == MAP_FAILED)
            continue;
        for (int page = 0; page < 64; page++)
            vast[(1UL << 35) * (unsigned)page] = 1;
    }
}
