/* Seals a mapping of its own, so that it cannot be unmapped any more. */
#include "hostile.h"

static void strike(void)
{
    void *page = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    *(uint64_t *)page = 0x57414c45;
    if (syscall(462, page, PAGE, 0) != 0)
        LACK("mseal");
}
