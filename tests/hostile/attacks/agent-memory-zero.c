/* Zeroes the agent's private memory: descriptor numbers, tables, the stack that the keeper sleeps on. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("memfd:regrow", number, &area); number++)
        if (strcmp(area.perms, "rw-p") == 0)
            memset((void *)area.low, 0, area.high - area.low);
}
