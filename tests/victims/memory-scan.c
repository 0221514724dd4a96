/* No string of an earlier run is anywhere in readable memory. The caller gives each run a token of
 * its own, VICTIM_TOKEN=token-<8 small letters or digits>, and perhaps the same as an argument. Every other
 * token in memory is another run's. */
#include "maps.h"
#include <ctype.h>

static char copy[4 * PAGE] __attribute__((aligned(4096)));
static char kept[1 << 16];

/* The comparison is with a text shifted by one, so that this program itself holds no token. */
static int is_token(const char *at)
{
    for (int i = 0; i < 6; i++)
        if (at[i] + 1 != "uplfo."[i])
            return 0;
    for (int i = 6; i < 14; i++)
        if (!islower((unsigned char)at[i]) && !isdigit((unsigned char)at[i]))
            return 0;
    return 1;
}

/* Looks for tokens that start in one page. */
static void scan_page(uintptr_t page, const struct map *map, const char *own)
{
    size_t size = map->high - page < PAGE + 16 ? map->high - page : PAGE + 16;
    struct iovec to = {copy, size}, from = {(void *)page, size};
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    for (char *at = copy; at + 14 <= copy + got; at++)
        if (*at == 't' && is_token(at) && memcmp(at, own, 14) != 0)
            fail("the text '%.14s' of an earlier run lies at %#lx in %s '%s'", at,
                 page + (uintptr_t)(at - copy), map->perms, map->path);
    memset(copy, 0, sizeof copy);
}

static void check(void)
{
    const char *own = getenv("VICTIM_TOKEN");
    if (own == NULL || strlen(own) != 14)
        return;
    static char text[1 << 18];
    struct map map;
    slurp("/proc/self/maps", text, sizeof text);
    for (char *at = text; (at = map_line(at, &map)) != NULL;)
        for (uintptr_t page = map.low; page < map.high && map.perms[1] == 'w'; page += PAGE)
            if (page < (uintptr_t)copy || page >= (uintptr_t)copy + sizeof copy)
                scan_page(page, &map, own);
}

static void dirty(void)
{
    for (size_t i = 0; i + 32 < sizeof kept; i += 32)
        snprintf(kept + i, 32, "%s", getenv("VICTIM_TOKEN") ? getenv("VICTIM_TOKEN") : "");
    /* For the proof that this victim can fail: a token that is not this run's. */
    if (getenv("VICTIM_PRETEND_STALE") != NULL)
        snprintf(kept, sizeof kept, "%s%s", "token", "-another1");
    char *deep = __builtin_alloca(1 << 16);
    memcpy(deep, kept, sizeof kept);
    __asm__ volatile("" : : "r"(deep) : "memory");
}
