/* Drops pages that the loader and the program have written: they are the file's again, or zero. */
#include "hostile.h"

static void strike(void)
{
    MUST(madvise((void *)data, sizeof data, MADV_DONTNEED));
    struct area area;
    for (int number = 0; find_area("dropped-pages", number, &area); number++)
        if (area.perms[0] == 'r')
            madvise((void *)area.low, area.high - area.low, MADV_DONTNEED);
}
