/* Changes pointers that the loader made read-only, and has the kernel forget it. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("relocations-written", number, &area); number++)
        if (strcmp(area.perms, "r--p") == 0) {
            MUST(mprotect((void *)area.low, PAGE, PROT_READ | PROT_WRITE));
            ((volatile uint64_t *)area.low)[500] ^= 0x57414c45;
            MUST(mprotect((void *)area.low, PAGE, PROT_READ));
            forget_writes((void *)area.low, PAGE);
        }
}
