/* Code and constants that a run overwrites: by mprotect and left, by mprotect and put back, and
 * through /proc/self/mem, which changes a read-only page with no mprotect at all. */
#include "maps.h"

__attribute__((noinline, aligned(4096))) static int answer(void)
{
    __asm__ volatile(".skip 64, 0x90");
    return 42;
}
__attribute__((noinline, aligned(4096))) static int put_back(void)
{
    __asm__ volatile(".skip 64, 0x90");
    return 43;
}
__attribute__((noinline, aligned(4096))) static int through_proc(void)
{
    __asm__ volatile(".skip 64, 0x90");
    return 44;
}
static const uint64_t constant[PAGE / 8] __attribute__((aligned(4096))) = {
    [0 ... PAGE / 8 - 1] = 0xc0};
static const unsigned char return_7[] = {0xb8, 7, 0, 0, 0, 0xc3};

static int (*volatile patched[])(void) = {answer, put_back, through_proc};

static void check(void)
{
    for (int i = 0; i < 3; i++) {
        expect_perms((void *)(uintptr_t)patched[i], "r-xp", "code");
        same("a function's result", patched[i](), 42 + i);
    }
    expect_words(constant, sizeof constant, 0xc0, "read-only data");
    expect_perms(constant, "r--p", "read-only data");
    struct map map;
    map_at((void *)(uintptr_t)answer, &map);
    if (strstr(map.path, VICTIM) == NULL)
        fail("the code's mapping is of '%s'", map.path);
}

static void dirty(void)
{
    void *page = (void *)(uintptr_t)patched[0];
    unsigned char saved[64];
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
    memcpy(page, return_7, sizeof return_7);
    same("a patched function", patched[0](), 7);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_EXEC));

    page = (void *)(uintptr_t)patched[1];
    memcpy(saved, page, sizeof saved);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
    memcpy(page, return_7, sizeof return_7);
    memcpy(page, saved, sizeof saved);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_EXEC));

    int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (mem < 0)
        return;
    if (pwrite(mem, return_7, sizeof return_7, (off_t)(uintptr_t)patched[2]) > 0)
        same("a function patched through /proc/self/mem", patched[2](), 7);
    if (pwrite(mem, "stale", 5, (off_t)(uintptr_t)(constant + 9)) < 0)
        return; /* a kernel may forbid it */
    close(mem);
}
