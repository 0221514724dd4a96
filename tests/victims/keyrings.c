/* The process keyring of an earlier run holds none of its keys. */
#include "maps.h"
#include <linux/keyctl.h>

static void check(void)
{
    long ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0);
    if (ring >= 0)
        fail("there is a process keyring, %ld", ring);
    if (errno == ENOSYS || errno == EPERM || errno == EACCES)
        skip("keyctl: %s", strerror(errno));
    long thread_ring = syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_THREAD_KEYRING, 0);
    if (thread_ring >= 0)
        fail("there is a thread keyring, %ld", thread_ring);
}

/* The keys of processes that have ended count for their user until the kernel collects them. */
static void add_key(int ring)
{
    for (int tries = 0; tries < 500; tries++) {
        if (syscall(SYS_add_key, "user", "left-behind", "stale", 5, ring) >= 0)
            return;
        if (errno != EDQUOT)
            break;
        usleep(10000);
    }
    fail("add_key: %s", strerror(errno));
}

static void dirty(void)
{
    add_key(KEY_SPEC_PROCESS_KEYRING);
    add_key(KEY_SPEC_THREAD_KEYRING);
}
