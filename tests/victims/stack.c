/* The stack is short, clean below the stack pointer, not executable, and has its limit. */
#include "maps.h"
#include <alloca.h>
#include <pthread.h>
#include <sys/resource.h>

#define DEEP ((size_t)4 << 20)
static const volatile uint64_t anti_mark = ~UINT64_C(0x7374616b7374616b);

static void check(void)
{
    struct map map;
    uint64_t here, anti = anti_mark;
    if (!map_at(&here, &map))
        fail("the stack is in no mapping");
    same_text("the name of the stack's mapping", map.path, "[stack]");
    same_text("the protection of the stack", map.perms, "rw-p");
    if (map.high - map.low > (1 << 20))
        fail("the stack's mapping is %lu KiB long", (map.high - map.low) >> 10);
    if (status_field("VmStk", 10) > 1024)
        fail("VmStk is %llu kB", status_field("VmStk", 10));
    for (volatile uint64_t *at = (uint64_t *)map.low; at < &here; at++)
        if (~*at == anti)
            fail("the stack holds an earlier run's mark %td bytes down", (char *)&here - (char *)at);
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_STACK, &limit));
    if (limit.rlim_cur != RLIM_INFINITY && map.high - (uintptr_t)&here > limit.rlim_cur)
        fail("the stack in use is above its limit");
    if (!unmapped((char *)map.low - 16 * PAGE, PAGE))
        fail("something is mapped close below the stack");
}

static void __attribute__((noinline)) deep(void)
{
    uint64_t *room = alloca(DEEP), mark = ~anti_mark;
    fill_words(room, DEEP, mark);
    __asm__ volatile("" : : "r"(room) : "memory");
}

static void dirty(void)
{
    deep();
    uintptr_t page = (uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1);
    MUST(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
}
