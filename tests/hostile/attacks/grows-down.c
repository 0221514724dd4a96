/* Has a mapping that grows down right above the program's memory. */
#include "hostile.h"

static void strike(void)
{
    char *low = MUST(mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    char *grows = mmap(low + 32 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
    munmap(low, 32 * PAGE);
    munmap(low + 33 * PAGE, 31 * PAGE);
    for (int page = 0; page < 8; page++)
        *(volatile char *)(grows - page * (long)PAGE) = 1;
}
