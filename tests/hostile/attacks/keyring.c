/* Has a session keyring of its own with a key in it. */
#include "hostile.h"

static void strike(void)
{
    if (syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, "left", 0, 0, 0) < 0)
        LACK("keyctl");
    syscall(SYS_add_key, "user", "left", "57414c45", 8, -3);
}
