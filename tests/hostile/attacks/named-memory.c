/* Gives memory of the program a name, which shows in the list of mappings. */
#include "hostile.h"

static void strike(void)
{
    if (prctl(0x53564d41 /* PR_SET_VMA */, 0, zeroes, sizeof zeroes, "left") != 0)
        LACK("PR_SET_VMA_ANON_NAME");
}
