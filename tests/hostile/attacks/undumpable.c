/* Makes itself undumpable. */
#include "hostile.h"

static void strike(void)
{
    MUST(prctl(PR_SET_DUMPABLE, 0));
}
