/* Drops pages of a large image that its constructor has filled, reads the kernel's zero page there, and has the kernel forget it. */
#include "hostile.h"

static volatile uint64_t filled[600][PAGE / 8];

__attribute__((constructor)) static void fill_pages(void)
{
    for (size_t page = 0; page < WORDS(filled); page++)
        filled[page][7] = page + 1;
}

static void strike(void)
{
    for (size_t page = 20; page < WORDS(filled) - 20; page += 3) {
        char *at = page_of(filled[page]);
        MUST(madvise(at, PAGE, MADV_DONTNEED));
        if (*at != 0)
            end_with(3, "something is left");
        forget_writes(at, PAGE);
    }
}
