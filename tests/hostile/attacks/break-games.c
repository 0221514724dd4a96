/* Moves the break up and down, and maps something in its way. */
#include "hostile.h"

static void strike(void)
{
    char *start = sbrk(0);
    MUST(brk(start + (64 << 20)));
    memset(start, 0x57, 1 << 20);
    MUST(brk(start + PAGE));
    mmap((void *)(((uintptr_t)start + 16 * PAGE) & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    munmap(page_of(start), PAGE);
}
