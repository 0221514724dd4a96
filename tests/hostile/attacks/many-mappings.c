/* Makes more mappings than a keeper has room for. */
#include "hostile.h"

static void strike(void)
{
    for (int number = 0; number < 9000; number++)
        mmap(NULL, PAGE, number % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
