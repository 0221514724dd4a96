/* Lowers limits of its keeper, which each process that it makes begins with. */
#include "hostile.h"

static void strike(void)
{
    struct rlimit files = {40, 40}, core = {0, 0}, locks = {7, 7};
    pid_t held = keeper();
    if (held != 0) {
        syscall(SYS_prlimit64, held, RLIMIT_NOFILE, &files, NULL);
        syscall(SYS_prlimit64, held, RLIMIT_CORE, &core, NULL);
        syscall(SYS_prlimit64, held, RLIMIT_LOCKS, &locks, NULL);
    }
}
