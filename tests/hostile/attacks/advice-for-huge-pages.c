/* Advises huge pages, which no advice takes back. */
#include "hostile.h"

static void strike(void)
{
    if (madvise((void *)zeroes, sizeof zeroes, MADV_HUGEPAGE) != 0)
        LACK("MADV_HUGEPAGE");
}
