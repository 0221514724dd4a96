/* Pages that a run throws away by madvise. They are then absent, and so look clean; the file's page
 * or zeroes come back in the place of what constructors and relocations had made. */
#include "maps.h"
#ifndef MADV_COLD
#define MADV_COLD 20
#define MADV_PAGEOUT 21
#endif

#define PAGES 4
typedef volatile uint64_t block[PAGES * PAGE / 8] __attribute__((aligned(4096)));

static block data = {1}, zero, freed;
static const char *const relocated[PAGE / 8] __attribute__((aligned(4096))) = {
    [0 ... PAGE / 8 - 1] = "fresh"};
static volatile uint64_t *kept;

__attribute__((constructor)) static void construct(void)
{
    fill_words(data, sizeof data, 0xc7);
    fill_words(zero, sizeof zero, 0xc7);
    fill_words(freed, sizeof freed, 0xc7);
    kept = malloc(100 * PAGE); /* a mapping of its own, and four pages of the heap */
    fill_words(kept, 100 * PAGE, 0xc7);
}

static void check(void)
{
    expect_words(data, sizeof data, 0xc7, "data that was dropped");
    expect_words(zero, sizeof zero, 0xc7, "bss that was dropped");
    expect_words(freed, sizeof freed, 0xc7, "bss that was freed lazily");
    expect_words(kept, 100 * PAGE, 0xc7, "a block that was dropped");
    const char *const volatile *pointers = relocated;
    for (size_t i = 0; i < PAGE / 8; i++)
        if (pointers[i] != pointers[1] || pointers[i] == NULL || strcmp(pointers[i], "fresh") != 0)
            fail("a relocated pointer, number %zu, differs", i);
}

static void advise(const volatile void *address, size_t size, int advice)
{
    MUST(madvise((void *)(uintptr_t)address, size, advice));
}

static void dirty(void)
{
    fill_words(freed, sizeof freed, 0xdead);
    advise(data, 2 * PAGE, MADV_DONTNEED);
    advise(zero, 3 * PAGE, MADV_DONTNEED);
    advise(freed, sizeof freed, MADV_FREE);
    advise(relocated, PAGE, MADV_DONTNEED);
    char *inside = (char *)(((uintptr_t)kept + PAGE) & ~(PAGE - 1));
    advise(inside, 50 * PAGE, MADV_DONTNEED);
    madvise((void *)(zero + 3 * PAGE / 8), PAGE, MADV_PAGEOUT);
    madvise((void *)(data + 3 * PAGE / 8), PAGE, MADV_COLD);
    madvise((void *)((uintptr_t)check & ~(PAGE - 1)), PAGE, MADV_PAGEOUT);
}
