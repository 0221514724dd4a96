/* Drops pages that the loader has written, reads what is there then, the file's page or none, and has the kernel forget that they were dropped. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("dropped-forgotten", number, &area); number++)
        if (strcmp(area.perms, "r--p") == 0)
            for (char *page = (char *)area.low; page < (char *)area.high; page += PAGE)
                if (madvise(page, PAGE, MADV_DONTNEED) == 0) {
                    (void)*(volatile char *)page;
                    forget_writes(page, PAGE);
                }
}
