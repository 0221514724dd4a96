/* Seals constants after it has changed them. */
#include "hostile.h"

static void strike(void)
{
    void *page = page_of(constants);
    MUST(mprotect(page, PAGE, PROT_READ | PROT_WRITE));
    *(volatile uint64_t *)page = 0x57414c45;
    MUST(mprotect(page, PAGE, PROT_READ));
    if (syscall(462, page, PAGE, 0) != 0)
        LACK("mseal");
}
