/* Gives memory of the program a protection key. */
#include "hostile.h"

static void strike(void)
{
    int key = (int)syscall(SYS_pkey_alloc, 0, 0);
    if (key < 0)
        LACK("pkey_alloc");
    MUST(syscall(SYS_pkey_mprotect, zeroes, sizeof zeroes, PROT_READ | PROT_WRITE, key));
}
