/* Leaves a process that shares its memory, and writes into it. */
#include "hostile.h"

static int live(void *unused)
{
    struct pollfd until = {UNTIL, POLLIN, 0};
    (void)unused;
    do
        zeroes[0]++;
    while (poll(&until, 1, 1) != 1);
    syscall(SYS_exit, 0);
    return 0;
}


static void strike(void)
{
    static char stack[1 << 14] __attribute__((aligned(16)));
    MUST(clone(live, stack + sizeof stack, CLONE_VM | CLONE_FILES, NULL));
    while (zeroes[0] == 0)
        ;
}
