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

static void dirty(void)
{
    MUST(syscall(SYS_add_key, "user", "left-behind", "stale", 5, KEY_SPEC_PROCESS_KEYRING));
    MUST(syscall(SYS_add_key, "user", "left-behind", "stale", 5, KEY_SPEC_THREAD_KEYRING));
}
