/* Locks what there is and what comes. */
#include "hostile.h"

static void strike(void)
{
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 && mlock((void *)zeroes, 8 * PAGE) != 0)
        LACK("mlock");
}
