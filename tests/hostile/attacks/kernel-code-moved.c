/* Moves the kernel's code page (vdso) elsewhere. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    if (!find_area("[vdso]", 0, &area))
        LACK("vdso");
    void *room = MUST(mmap(NULL, area.high - area.low, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    size_t bytes = area.high - area.low;
    MUST(mremap((void *)area.low, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, room) == MAP_FAILED ? -1 : 0);
}
