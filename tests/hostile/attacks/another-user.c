/* Becomes another user in a world of its own, as far as it may. */
#include "hostile.h"

static void strike(void)
{
    unshare(CLONE_NEWUSER);
    unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWPID);
    if (chroot("/proc") == 0)
        (void)!chdir("/");
    (void)!setresgid(65534, 65534, 65534);
    (void)!setresuid(65534, 65534, 65534);
}
