/* Puts guard pages into the program's memory. */
#include "hostile.h"

static void strike(void)
{
    fill(zeroes, sizeof zeroes, 0x57414c45);
    if (madvise((void *)zeroes, 2 * PAGE, 102 /* MADV_GUARD_INSTALL */) != 0)
        LACK("MADV_GUARD_INSTALL");
    madvise((void *)data, PAGE, 102);
}
