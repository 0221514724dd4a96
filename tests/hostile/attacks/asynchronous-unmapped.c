/* Leaves asynchronous input and output whose ring is unmapped. */
#include "hostile.h"

static void strike(void)
{
    unsigned long context = 0;
    if (syscall(SYS_io_setup, 64, &context) != 0)
        LACK("io_setup");
    struct area area;
    while (find_area("/[aio]", 0, &area) && munmap((void *)area.low, area.high - area.low) == 0)
        ;
}
