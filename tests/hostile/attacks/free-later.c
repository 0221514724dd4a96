/* Has the kernel free pages later that equal those of the image: they go when memory is short. */
#include "hostile.h"

/* Anonymous memory that is not zero in the image. */
static volatile uint64_t early[4 * PAGE / 8] __attribute__((aligned(4096)));

__attribute__((constructor)) static void fill_early(void) { fill(early, sizeof early, 0xea); }

static void strike(void)
{
    early[0] = 0x11;
    early[0] = 0xea;
    MUST(madvise((void *)early, sizeof early, MADV_FREE));
    fill(zeroes, sizeof zeroes, 0x57414c45);
    MUST(madvise((void *)zeroes, sizeof zeroes, MADV_FREE));
}
