/* Pages of the program's own that a run unmaps, moves away or maps something else over. */
#include "maps.h"

#define PAGES 16
#define AT(array, page) ((void *)((array) + (page) * (int)(PAGE / 8)))
typedef volatile uint64_t block[PAGES * PAGE / 8] __attribute__((aligned(4096)));

static block data = {[0 ... PAGES * PAGE / 8 - 1] = 0xda7a}, zero;
static block data_over = {[0 ... PAGES * PAGE / 8 - 1] = 0xda7a}, zero_over;
static const uint64_t constant[PAGES * PAGE / 8] __attribute__((aligned(4096))) = {
    [0 ... PAGES * PAGE / 8 - 1] = 0xc0};
static void *const elsewhere = (void *)0x110000000000;

__attribute__((constructor)) static void construct(void)
{
    fill_words(AT(data, 8), PAGE, 0xc7); /* differs from the file */
    fill_words(AT(data_over, 8), PAGE, 0xc7);
    fill_words(AT(zero, 8), PAGE, 0xc7);
}

static void check_data(block *data_block, const char *what)
{
    for (int page = 0; page < PAGES; page++)
        expect_words(AT(*data_block, page), PAGE, page == 8 ? 0xc7 : 0xda7a, what);
    for (int page = 0; page < PAGES; page++)
        expect_perms(AT(*data_block, page), "rw-p", what);
}

static void check(void)
{
    check_data(&data, "data that was unmapped");
    check_data(&data_over, "data that was mapped over");
    for (int page = 0; page < PAGES; page++)
        expect_words(AT(zero, page), PAGE, page == 8 ? 0xc7 : 0, "bss that was unmapped");
    expect_words(zero_over, sizeof zero_over, 0, "bss that was mapped over");
    expect_words(constant, sizeof constant, 0xc0, "read-only data");
    expect_perms(constant, "r--p", "read-only data");
    struct map map;
    map_at(data, &map);
    if (strstr(map.path, "maps-removed") == NULL)
        fail("the data's mapping is of '%s'", map.path);
    if (!unmapped(elsewhere, PAGES * PAGE))
        fail("something is mapped at %p", elsewhere);
}

static void over(void *address, int flags, int fd)
{
    MUST(mmap(address, PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0));
}

static void dirty(void)
{
    MUST(munmap(AT(data, 0), PAGE));
    MUST(munmap(AT(data, 7), 3 * PAGE));
    MUST(munmap(AT(zero, 4), 8 * PAGE));
    MUST(mremap(AT(data, 12), 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere));
    MUST(munmap((void *)(constant + PAGE / 8), 2 * PAGE));
    over((void *)(constant + 3 * PAGE / 8), MAP_PRIVATE | MAP_ANONYMOUS, -1);

    int exe = MUST(open("/proc/self/exe", O_RDONLY));
    over(AT(data_over, 1), MAP_PRIVATE | MAP_ANONYMOUS, -1);
    over(AT(data_over, 3), MAP_SHARED | MAP_ANONYMOUS, -1);
    over(AT(data_over, 5), MAP_PRIVATE, exe);
    over(AT(data_over, 8), MAP_PRIVATE | MAP_ANONYMOUS, -1);
    over(AT(zero_over, 2), MAP_PRIVATE | MAP_ANONYMOUS, -1); /* merges with its neighbours */
    over(AT(zero_over, 4), MAP_SHARED | MAP_ANONYMOUS, -1);
    over(AT(zero_over, 6), MAP_PRIVATE, exe);
    over(AT(zero_over, 8), MAP_PRIVATE, MUST(open("/dev/zero", O_RDWR)));
    fill_words(AT(zero_over, 2), 7 * PAGE, 0xdead);
}
