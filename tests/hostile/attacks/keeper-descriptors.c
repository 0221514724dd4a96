/* Takes copies of its keeper's descriptors. */
#include "hostile.h"

static void strike(void)
{
    pid_t held = keeper();
    if (held == 0)
        return;
    int pidfd = (int)syscall(SYS_pidfd_open, held, 0);
    for (int number = 0; number < 32; number++) {
        int copy = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
        if (copy >= 0) {
            fcntl(copy, F_SETFD, 0);
            (void)!write(copy, "57", 2);
        }
    }
}
