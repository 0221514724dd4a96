/* What a victim asks about its own mappings: what is where, and with which protection and flags. */
#ifndef MAPS_H
#define MAPS_H

#include "victim.h"
#include <sys/uio.h>

struct map {
    uintptr_t low, high;
    char perms[5];
    char path[256];
};

static char maps_text[1 << 20];

/* The text's next line, as a mapping; returns what follows the line, or NULL at the end. */
MAYBE static char *map_line(char *at, struct map *map)
{
    char *eol = strchr(at, '\n');
    if (eol == NULL)
        return NULL;
    *eol = 0;
    int skip_to = 0;
    map->path[0] = 0;
    if (sscanf(at, "%lx-%lx %4s %*s %*s %*s %n", &map->low, &map->high, map->perms, &skip_to) < 3)
        fail("cannot read the line '%s' of /proc/self/maps", at);
    if (skip_to > 0)
        snprintf(map->path, sizeof map->path, "%.255s", at + skip_to);
    return eol + 1;
}

/* Finds the mapping that holds an address. */
MAYBE static int map_at(const volatile void *address, struct map *map)
{
    slurp("/proc/self/maps", maps_text, sizeof maps_text);
    for (char *at = maps_text; (at = map_line(at, map)) != NULL;)
        if (map->low <= (uintptr_t)address && (uintptr_t)address < map->high)
            return 1;
    return 0;
}

/* Finds the first mapping whose name holds `part`. */
MAYBE static int map_named(const char *part, struct map *map)
{
    slurp("/proc/self/maps", maps_text, sizeof maps_text);
    for (char *at = maps_text; (at = map_line(at, map)) != NULL;)
        if (strstr(map->path, part) != NULL)
            return 1;
    return 0;
}

MAYBE static void expect_perms(const volatile void *address, const char *perms, const char *what)
{
    struct map map;
    if (!map_at(address, &map))
        fail("%s is not mapped", what);
    if (strcmp(map.perms, perms) != 0)
        fail("%s is mapped %s, not %s", what, map.perms, perms);
}

/* True when the whole range is mapped. */
MAYBE static int mapped(const volatile void *address, size_t size)
{
    uintptr_t low = (uintptr_t)address & ~(PAGE - 1);
    return msync((void *)low, (uintptr_t)address + size - low, 0) == 0 || errno != ENOMEM;
}

/* True when no page of the range is mapped. */
MAYBE static int unmapped(const volatile void *address, size_t size)
{
    void *got = mmap((void *)address, size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return 0;
    munmap(got, size);
    return got == address;
}

/* True when the kernel can read every page of the range for us: mapped, readable, no guard. */
MAYBE static int readable(const volatile void *address, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE) {
        char byte;
        struct iovec to = {&byte, 1}, from = {(char *)address + at, 1};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1)
            return 0;
    }
    return 1;
}

MAYBE static void expect_words(const volatile uint64_t *words, size_t bytes, uint64_t want,
                               const char *what)
{
    if (!readable(words, bytes))
        fail("%s cannot be read", what);
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i] != want)
            fail("%s: word %zu is %#lx, not %#lx", what, i, words[i], want);
}

MAYBE static void fill_words(volatile uint64_t *words, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = value;
}

/* The VmFlags of the mapping that holds an address, such as " rd wr mr mw me ac ". */
MAYBE static const char *vm_flags(const volatile void *address)
{
    static char flags[160];
    slurp("/proc/self/smaps", maps_text, sizeof maps_text);
    uintptr_t low = 0, high = 0;
    for (char *rest, *line = strtok_r(maps_text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        uintptr_t l, h;
        char perms[5];
        if (sscanf(line, "%lx-%lx %4s", &l, &h, perms) == 3) {
            low = l;
            high = h;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && low <= (uintptr_t)address &&
                   (uintptr_t)address < high) {
            snprintf(flags, sizeof flags, "%s ", line + 8);
            return flags;
        }
    }
    fail("no mapping at %p", (void *)address);
}

/* Fails when the mapping has one of the flags in `list`, such as "dc wf". */
MAYBE static void expect_no_flags(const volatile void *address, const char *list, const char *what)
{
    const char *flags = vm_flags(address);
    for (; *list != 0; list += list[2] == ' ' ? 3 : 2) {
        char flag[5] = {' ', list[0], list[1], ' ', 0};
        if (strstr(flags, flag) != NULL)
            fail("%s has the mapping flag '%.2s' (%s)", what, list, flags);
    }
}

#endif
