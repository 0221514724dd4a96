/* Registers for membarrier, which cannot be undone. */
#include "hostile.h"

static void strike(void)
{
    if (syscall(SYS_membarrier, 1 << 4 /* register private expedited */, 0, 0) != 0)
        LACK("membarrier");
    syscall(SYS_membarrier, 1 << 6 /* register private expedited sync core */, 0, 0);
}
