/* Mappings of every kind that a run adds and leaves: none of them is there in the next run. */
#include "maps.h"

#define SLOTS 16
#define GIB ((size_t)1 << 30)

static char *slot(int i) { return (char *)(UINT64_C(0x100000000000) + (uint64_t)i * GIB); }

static void check(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (!unmapped(slot(i) - 64 * PAGE, 512 * PAGE))
            fail("something is mapped at %p", slot(i));
    if (status_field("VmSize", 10) > 256 << 10)
        fail("the address space starts with %llu kB", status_field("VmSize", 10));
    struct map map;
    int count = 0;
    slurp("/proc/self/maps", maps_text, sizeof maps_text);
    for (char *at = maps_text; (at = map_line(at, &map)) != NULL; count++)
        if (strstr(map.path, "/dev/zero") != NULL || strstr(map.path, "left-behind") != NULL)
            fail("there is a mapping %s '%s' at %lx", map.perms, map.path, map.low);
    if (count > 100)
        fail("there are %d mappings", count);
}

static char *map_into(int i, size_t size, int prot, int flags, int fd)
{
    return MUST(mmap(slot(i), size, prot, flags | MAP_FIXED_NOREPLACE, fd, 0));
}

static void dirty(void)
{
    const int rw = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_ANONYMOUS;
    int fd = MUST(memfd_create("left-behind", 0));
    MUST(ftruncate(fd, 64 * PAGE));
    memset(map_into(0, 64 * PAGE, rw, own, -1), 1, 64 * PAGE);
    memset(map_into(1, 64 * PAGE, rw, MAP_SHARED | MAP_ANONYMOUS, -1), 1, 64 * PAGE);
    memset(map_into(2, 64 * PAGE, rw, MAP_PRIVATE, fd), 1, 64 * PAGE);
    memset(map_into(3, 64 * PAGE, rw, MAP_SHARED, fd), 1, 64 * PAGE);
    map_into(4, 64 * PAGE, PROT_NONE, own, -1);
    map_into(5, PAGE, rw | PROT_EXEC, own, -1)[0] = (char)0xc3;
    map_into(6, GIB / 2, rw, own | MAP_NORESERVE, -1)[GIB / 4] = 1;
    char *down = map_into(7, PAGE, rw, own | MAP_GROWSDOWN | MAP_STACK, -1);
    for (int page = 0; page > -40; page--)
        down[page * (long)PAGE] = 1;
    int exe = MUST(open("/proc/self/exe", O_RDONLY));
    map_into(8, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, exe);
    memset(map_into(9, 64 * PAGE, rw, own | MAP_POPULATE, -1), 1, PAGE);
    for (int i = 0; i < 64; i += 2) /* a comb of many small mappings */
        MUST(mprotect(slot(9) + i * (long)PAGE, PAGE, PROT_READ));
    MUST(mremap(slot(0), 16 * PAGE, 16 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, slot(10)));
    for (int i = 0; i < 100; i++) /* beside the libraries, where the kernel chooses */
        MUST(mmap(NULL, PAGE, i % 2 ? rw : PROT_READ, own, -1, 0));
}
