/* Guard markers in own memory: no mapping, protection or flag differs, yet a touch is fatal. */
#include "maps.h"
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

static volatile uint64_t data[4 * PAGE / 8] __attribute__((aligned(4096))) = {1, 2, 3};
static volatile uint64_t zero[4 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    if (!readable(data, sizeof data))
        fail("data has a guarded page");
    if (!readable(zero, sizeof zero))
        fail("bss has a guarded page");
    same("data[1]", (long long)data[1], 2);
    expect_words(zero, sizeof zero, 0, "bss");
}

static void dirty(void)
{
    fill_words(zero, sizeof zero, 0xdead);
    if (madvise((void *)(zero + PAGE / 8), 2 * PAGE, MADV_GUARD_INSTALL) != 0)
        skip("MADV_GUARD_INSTALL: %s", strerror(errno));
    madvise((void *)data, PAGE, MADV_GUARD_INSTALL);
}
