/* Gives its pages to a pipe without copying them. */
#include "hostile.h"

static void strike(void)
{
    memset((void *)zeroes, 'k', sizeof zeroes);
    struct iovec pages = {(void *)zeroes, 8 * PAGE};
    if (vmsplice(KEPT, &pages, 1, SPLICE_F_GIFT) < 0)
        LACK("vmsplice");
}
