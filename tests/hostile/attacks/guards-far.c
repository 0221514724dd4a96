/* Changes more pages than a reset writes in place, and puts guard pages behind them. */
#include "hostile.h"

static void strike(void)
{
    fill(zeroes, sizeof zeroes, 0x57414c45);
    if (madvise((void *)(zeroes + 400 * PAGE / 8), 8 * PAGE, 102 /* MADV_GUARD_INSTALL */) != 0)
        LACK("MADV_GUARD_INSTALL");
}
