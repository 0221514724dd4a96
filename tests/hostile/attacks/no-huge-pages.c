/* Switches huge pages off for itself. */
#include "hostile.h"

static void strike(void)
{
    MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
}
