/* Huge pages, transparent and (where the machine has some) from the pool, in bss and elsewhere. */
#include "maps.h"

#define HUGE ((size_t)2 << 20)
#define HERE ((char *)0x130000000000)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static volatile uint64_t zero[3 * HUGE / 8] __attribute__((aligned(2 << 20)));

static void check(void)
{
    expect_no_flags(zero, "hg nh ht", "bss");
    expect_no_flags(zero + 2 * HUGE / 8, "hg nh ht", "bss");
    for (size_t i = 0; i < sizeof zero / 8; i += 509)
        if (zero[i] != 0)
            fail("bss word %zu is %#lx", i, zero[i]);
    if (!unmapped(HERE, 16 * HUGE))
        fail("something is mapped at %p", (void *)HERE);
    same("HugetlbPages", (long long)status_field("HugetlbPages", 10), 0);
}

static void dirty(void)
{
    const int rw = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    madvise((void *)zero, 2 * HUGE, MADV_HUGEPAGE);
    fill_words(zero, sizeof zero, 0xdead);
    madvise((void *)(zero + 2 * HUGE / 8), HUGE, MADV_COLLAPSE);
    MUST(mprotect((void *)(zero + HUGE / 16), PAGE, PROT_READ)); /* splits the first huge page */
    char *at = MUST(mmap(HERE, 4 * HUGE, rw, own | MAP_FIXED_NOREPLACE, -1, 0));
    madvise(at, 4 * HUGE, MADV_HUGEPAGE);
    memset(at, 0x5a, 4 * HUGE);
    at = mmap(HERE + 8 * HUGE, HUGE, rw, own | MAP_HUGETLB | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED)
        memset(at, 0x5a, HUGE);
}
