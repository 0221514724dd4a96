/* Writes pages and has the kernel swap them out. */
#include "hostile.h"

static void strike(void)
{
    fill(zeroes, sizeof zeroes, 0x57414c45);
    data[0] = 0x57414c45;
    madvise((void *)zeroes, sizeof zeroes, 21 /* MADV_PAGEOUT */);
    madvise((void *)data, sizeof data, 21);
}
