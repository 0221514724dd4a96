/* Changes code, its own and the libc's, and has the kernel forget it. */
#include "hostile.h"
#include <regex.h>

static void strike(void)
{
    void *pages[] = {page_of((void *)(uintptr_t)probe), page_of((void *)(uintptr_t)regcomp)};
    for (size_t i = 0; i < WORDS(pages); i++) {
        MUST(mprotect(pages[i], PAGE, PROT_READ | PROT_WRITE | PROT_EXEC));
        volatile uint8_t *byte = i == 0 ? (uint8_t *)(uintptr_t)probe : (uint8_t *)(uintptr_t)regcomp;
        *byte = 0xcc;
        MUST(mprotect(pages[i], PAGE, PROT_READ | PROT_EXEC));
        forget_writes(pages[i], PAGE);
    }
}
