/* Forbids memory that is written and executed, which cannot be undone. */
#include "hostile.h"

static void strike(void)
{
    if (prctl(65, 1, 0, 0, 0) != 0)
        LACK("PR_SET_MDWE");
}
