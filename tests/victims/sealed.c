/* Own memory that a run seals against every later change. */
#include "maps.h"
#ifndef SYS_mseal
#define SYS_mseal 462
#endif

static volatile uint64_t zero[4 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    expect_words(zero, sizeof zero, 0, "bss");
    expect_no_flags(zero, "sl", "bss");
    if (mprotect((void *)zero, PAGE, PROT_READ) != 0)
        fail("bss cannot be protected: %s", strerror(errno));
    MUST(mprotect((void *)zero, PAGE, PROT_READ | PROT_WRITE));
    if (madvise((void *)zero, sizeof zero, MADV_DONTNEED) != 0)
        fail("bss cannot be dropped: %s", strerror(errno));
}

static void dirty(void)
{
    fill_words(zero, sizeof zero, 0xdead);
    if (syscall(SYS_mseal, zero, 2 * PAGE, 0) != 0)
        skip("mseal: %s", strerror(errno));
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    syscall(SYS_mseal, page, PAGE, 0);
}
