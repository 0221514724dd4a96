/* Locked memory: own pages by mlock, and by mlockall everything that is mapped later. */
#include "maps.h"
#ifndef MCL_ONFAULT
#define MCL_ONFAULT 4
#endif

static volatile uint64_t zero[8 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    same("VmLck", (long long)status_field("VmLck", 10), 0);
    expect_no_flags(zero, "lo", "bss");
    expect_words(zero, sizeof zero, 0, "bss");
    void *page = MUST(mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    expect_no_flags(page, "lo", "a new mapping");
    same("VmLck after a new mapping", (long long)status_field("VmLck", 10), 0);
    munmap(page, 4 * PAGE);
}

static void dirty(void)
{
    fill_words(zero, sizeof zero, 0xdead);
    MUST(mlock((void *)zero, 2 * PAGE));
    MUST(mlock2((void *)(zero + 4 * PAGE / 8), PAGE, 1 /* on fault */));
    MUST(mlockall(MCL_FUTURE | MCL_ONFAULT));
    MUST(mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
