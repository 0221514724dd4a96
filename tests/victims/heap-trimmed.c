/* A heap that was given back: malloc_trim to nothing, and brk moved below what the libc holds. */
#include "maps.h"
#define LARGE ((size_t)4 << 20)

static unsigned char *kept;

__attribute__((constructor)) static void prepare(void)
{
    kept = malloc(100000); /* in the heap before main: it must be there in every run */
    memset(kept, 7, 100000);
}

static void check(void)
{
    uintptr_t start = stat_field(47), now = (uintptr_t)syscall(SYS_brk, 0);
    if (now - start > (1 << 20))
        fail("the program break starts %lu bytes above its start", now - start);
    if (!readable(kept, 100000))
        fail("a block of the constructor's is not mapped");
    for (int i = 0; i < 100000; i++)
        if (kept[i] != 7)
            fail("byte %d of the constructor's block is %d", i, kept[i]);
    if ((uintptr_t)syscall(SYS_brk, now + LARGE) != now + LARGE)
        fail("the program break cannot grow");
    expect_words((uint64_t *)((now + 7) & ~(uintptr_t)7), LARGE - 8, 0, "memory above the break");
    syscall(SYS_brk, now);
}

static void dirty(void)
{
    free(kept);
    uintptr_t now = (uintptr_t)syscall(SYS_brk, 0);
    syscall(SYS_brk, now + LARGE);
    memset((void *)now, 0x5a, LARGE);
    syscall(SYS_brk, now + LARGE / 2);
    if (victim_argc > 1 && strcmp(victim_argv[1], "down") == 0) {
        syscall(SYS_brk, stat_field(47));
        mmap((void *)((now + PAGE - 1) & ~(PAGE - 1)), PAGE, PROT_READ, /* in the heap's way */
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        syscall(SYS_brk, stat_field(47) - PAGE); /* the kernel refuses to go below the start */
    }
}
