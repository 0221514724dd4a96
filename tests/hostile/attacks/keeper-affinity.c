/* Binds its keeper to another processor, on which each process that it makes begins. */
#include "hostile.h"

static void strike(void)
{
    pid_t held = keeper();
    unsigned long all = 0;
    syscall(SYS_sched_getaffinity, 0, sizeof all, &all);
    unsigned cpu = 0;
    syscall(SYS_getcpu, &cpu, 0, 0);
    unsigned long other = all & ~(1ul << cpu);
    if (held != 0)
        syscall(SYS_sched_setaffinity, held, sizeof other, &other);
}
