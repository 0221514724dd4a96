/* Changes policy, niceness, slice and affinity of its keeper, which each process that it makes begins with. */
#include "hostile.h"

static void strike(void)
{
    pid_t held = keeper();
    struct sched_param none = {0};
    unsigned long first = 1;
    if (held != 0) {
        syscall(SYS_sched_setscheduler, held, SCHED_BATCH, &none);
        setpriority(PRIO_PROCESS, (id_t)held, 7);
        syscall(SYS_sched_setaffinity, held, sizeof first, &first);
        syscall(SYS_ioprio_set, 1, held, 3 << 13 | 1);
    }
}
