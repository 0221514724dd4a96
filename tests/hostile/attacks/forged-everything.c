/* Fills the whole control area. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    if (find_area("memfd:regrow-control", 0, &area))
        memset((void *)area.low, 0x57, area.high - area.low);
}
