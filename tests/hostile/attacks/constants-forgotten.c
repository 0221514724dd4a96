/* Changes constants, and has the kernel forget that they were written. */
#include "hostile.h"

static void strike(void)
{
    void *page = page_of(constants);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
    *(volatile uint64_t *)page = 0x57414c45;
    MUST(mprotect(page, PAGE, PROT_READ));
    forget_writes(page, PAGE);
}
