/* Had advice of its own before the image was made: the next run still has it. */
#include "hostile.h"

static volatile uint64_t secret[PAGE / 8] __attribute__((aligned(4096)));
static volatile uint64_t large[PAGE / 8] __attribute__((aligned(4096)));

__attribute__((constructor)) static void advise(void)
{
    fill(secret, sizeof secret, 0x5ec);
    fill(large, sizeof large, 0x1a);
    madvise((void *)large, sizeof large, MADV_DONTDUMP);
    madvise((void *)secret, sizeof secret, MADV_WIPEONFORK);
}

static void strike(void)
{
    secret[0] = 0x57414c45;
    large[0] = 0x57414c45;
}
