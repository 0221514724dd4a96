/* Own pages whose protection a run changes: data, bss, constants, relocated constants, code. */
#include "maps.h"

#define PAGES 8
typedef volatile uint64_t block[PAGES * PAGE / 8] __attribute__((aligned(4096)));

static block data = {[0 ... PAGES * PAGE / 8 - 1] = 0xda7a}, zero;
static const uint64_t constant[PAGE / 8] __attribute__((aligned(4096))) = {
    [0 ... PAGE / 8 - 1] = 0xc0};
/* Pointers that the loader relocates and then protects. */
static const char *const relocated[PAGE / 8] __attribute__((aligned(4096))) = {
    [0 ... PAGE / 8 - 1] = "fresh"};

static void check(void)
{
    for (int page = 0; page < PAGES; page++) {
        expect_perms(data + page * PAGE / 8, "rw-p", "data");
        expect_perms(zero + page * PAGE / 8, "rw-p", "bss");
    }
    expect_perms(constant, "r--p", "read-only data");
    expect_perms(relocated, "r--p", "relocated read-only data");
    expect_perms((void *)(uintptr_t)check, "r-xp", "code");
    expect_perms((void *)(uintptr_t)main, "r-xp", "the code of main");
    expect_words(data, sizeof data, 0xda7a, "data");
    expect_words(zero, sizeof zero, 0, "bss");
    expect_words(constant, sizeof constant, 0xc0, "read-only data");
    if (!readable(relocated, PAGE))
        fail("relocated read-only data cannot be read");
    const char *const volatile *pointers = relocated;
    for (size_t i = 0; i < PAGE / 8; i++)
        if (pointers[i] != pointers[1] || strcmp(pointers[i], "fresh") != 0)
            fail("a relocated pointer, number %zu, differs", i);
}

static void protect(const volatile void *address, size_t pages, int prot)
{
    uintptr_t page = (uintptr_t)address & ~(PAGE - 1);
    MUST(mprotect((void *)page, pages * PAGE, prot));
}

static void dirty(void)
{
    const int r = PROT_READ, w = PROT_WRITE, x = PROT_EXEC;
    fill_words(data, PAGE, 1);
    protect(data, 1, r);
    protect(data + 2 * PAGE / 8, 1, PROT_NONE);
    protect(data + 4 * PAGE / 8, 2, r | w | x);
    protect(zero, 1, PROT_NONE);
    protect(zero + 2 * PAGE / 8, 1, r);
    protect(zero + 4 * PAGE / 8, 2, r | w | x);
    protect(constant, 1, r | w);
    *(uint64_t *)(uintptr_t)constant = 1;
    protect(relocated, 1, r | w);
    const char **pointers = (const char **)(uintptr_t)relocated;
    pointers[0] = pointers[77] = "stale";
    protect((void *)(uintptr_t)check, 1, r | w | x);
}
