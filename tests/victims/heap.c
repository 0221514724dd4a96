/* What malloc hands out holds nothing of an earlier run, and the allocator starts from the start. */
#include "maps.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* The mark is stored nowhere as it is, so that only a heap that was written to holds it. */
static const volatile uint64_t anti_mark = ~UINT64_C(0x6d61726b6d61726b);

static void scan(const volatile uint64_t *words, size_t bytes, const char *what)
{
    uint64_t anti = anti_mark;
    for (size_t i = 0; i < bytes / 8; i++)
        if (~words[i] == anti)
            fail("%s holds an earlier run's mark at word %zu", what, i);
}

static void scan_heap(void)
{
    struct map map;
    slurp("/proc/self/maps", maps_text, sizeof maps_text);
    for (char *at = maps_text; (at = map_line(at, &map)) != NULL;)
        if (map.perms[1] == 'w' && strcmp(map.path, "[heap]") == 0)
            scan((uint64_t *)map.low, map.high - map.low, "[heap]");
}

static void scan_new(size_t size)
{
    uint64_t *block = malloc(size);
    if (block == NULL)
        fail("malloc of %zu bytes", size);
    scan(block, size, "a new block");
    memset(block, 1, size);
    free(block);
}

static void check(void)
{
#ifdef __GLIBC__
    struct mallinfo2 info = mallinfo2();
    if (info.uordblks > 200000 || info.hblks != 0)
        fail("the allocator starts with %zu bytes and %zu mappings in use", info.uordblks,
             info.hblks);
    void *volatile mapped_block = malloc(200000);
    same("mappings for a block above the first mmap threshold", (long long)mallinfo2().hblks, 1);
    free(mapped_block);
#endif
    scan_heap();
    for (size_t size = 16; size < 100000; size = size * 3 / 2 & ~(size_t)7)
        scan_new(size);
    uint64_t *zeroed = calloc(5000, 8);
    expect_words(zeroed, 40000, 0, "a calloc block");
    free(zeroed);
    scan_heap();
}

static void dirty(void)
{
    static void *blocks[400];
    uint64_t mark = ~anti_mark;
    for (int i = 0; i < 400; i++) {
        size_t size = (size_t)16 << i % 15;
        blocks[i] = malloc(size);
        fill_words(blocks[i], size, mark);
    }
    for (int i = 0; i < 400; i += 3)
        free(blocks[i]);
    void *volatile big = malloc(20 << 20);
    free(big); /* raises glibc's mmap threshold */
#ifdef __GLIBC__
    malloc_trim(0);
    mallopt(M_PERTURB, 0x5a);
    /* Write past a block: the allocator's own words there become the mark. */
    uint64_t *last = malloc(24);
    fill_words(last, 256, mark);
#endif
}
