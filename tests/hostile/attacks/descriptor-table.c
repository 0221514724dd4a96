/* Makes a descriptor table of its own (LDT), which cannot be undone. */
#include "hostile.h"
#include <asm/ldt.h>

static void strike(void)
{
    struct user_desc entry = {.entry_number = 3, .base_addr = 0x10000, .limit = 0xfff, .seg_32bit = 1, .useable = 1};
    if (syscall(SYS_modify_ldt, 1, &entry, sizeof entry) != 0)
        LACK("modify_ldt");
}
