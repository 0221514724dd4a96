/* Settings by prctl that belong to the address space and so outlive the process that made them. */
#include "maps.h"
#include <sys/prctl.h>
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#define PR_GET_MEMORY_MERGE 68
#endif

static volatile uint64_t zero[2 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    same("dumpable", prctl(PR_GET_DUMPABLE), 1);
    same("huge pages turned off", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 0);
    same("THP_enabled", (long long)status_field("THP_enabled", 10), 1);
    int merge = prctl(PR_GET_MEMORY_MERGE, 0, 0, 0, 0);
    same("memory merge", merge < 0 ? 0 : merge, 0);
    expect_no_flags(zero, "mg nh", "bss");
    expect_no_flags(__builtin_frame_address(0), "mg nh", "the stack");
    void *block = MUST(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    expect_no_flags(block, "mg nh lo", "a new mapping");
    munmap(block, PAGE);
}

static void dirty(void)
{
    fill_words(zero, sizeof zero, 0);
    prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0);
    MUST(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
    MUST(prctl(PR_SET_DUMPABLE, 0));
}
