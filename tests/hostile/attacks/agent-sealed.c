/* Seals the agent's areas and takes every right to them away. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("memfd:regrow", number, &area); number++) {
        mprotect((void *)area.low, area.high - area.low, PROT_NONE);
        syscall(462, area.low, area.high - area.low, 0);
    }
}
