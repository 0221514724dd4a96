/* Moves memory of the program elsewhere, and leaves holes. */
#include "hostile.h"

static void strike(void)
{
    void *room = MUST(mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    mremap((void *)zeroes, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
    mremap((void *)(zeroes + 16 * PAGE / 8), 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | 4 /* DONTUNMAP */,
           (char *)room + 16 * PAGE);
    munmap((void *)data, sizeof data);
    munmap(page_of(constants), PAGE);
}
