/* Flags that madvise sets on the program's own mappings; they show in smaps as VmFlags. */
#include "maps.h"
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define PAGES 8
typedef volatile uint64_t block[PAGES * PAGE / 8] __attribute__((aligned(4096)));

static block data = {1, 2, 3}, zero;
/* don't copy, wipe on fork, don't dump, mergeable, huge, not huge, locked, random, sequential, io */
static const char flags[] = "dc wf dd mg hg nh lo rr sr io";

static void check(void)
{
    for (int page = 0; page < PAGES; page++) {
        expect_no_flags(data + page * PAGE / 8, flags, "data");
        expect_no_flags(zero + page * PAGE / 8, flags, "bss");
    }
    expect_no_flags(__builtin_frame_address(0), flags, "the stack");
    expect_no_flags((void *)(uintptr_t)check, flags, "the code");
    expect_no_flags((void *)(uintptr_t)memcpy, flags, "the libc's code");
    same("data[2]", (long long)data[2], 3);
    expect_words(zero, sizeof zero, 0, "bss");
    pid_t pid = MUST(fork());
    if (pid == 0)
        _exit(mapped(data, sizeof data) && data[2] == 3 && mapped(zero, sizeof zero) ? 0 : 1);
    int status;
    MUST(waitpid(pid, &status, 0));
    same("status of a child that reads the same data", status, 0);
}

static void dirty(void)
{
    static const int advices[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, MADV_MERGEABLE,
                                  MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_RANDOM, MADV_SEQUENTIAL};
    fill_words(zero, sizeof zero, 0xdead);
    for (int i = 0; i < PAGES; i++) {
        madvise((void *)(zero + i * PAGE / 8), PAGE, advices[i]);
        madvise((void *)(data + i * PAGE / 8), PAGE, advices[i]);
    }
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1);
    madvise((void *)(stack - 8 * PAGE), PAGE, MADV_DONTFORK);
    madvise((void *)stack, PAGE, MADV_DONTDUMP);
    madvise((void *)((uintptr_t)check & ~(PAGE - 1)), PAGE, MADV_RANDOM);
    madvise((void *)((uintptr_t)memcpy & ~(PAGE - 1)), PAGE, MADV_SEQUENTIAL);
}
