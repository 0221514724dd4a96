/* Gives advice of every other sort for memory of the program. */
#include "hostile.h"

static void strike(void)
{
    static const int advices[] = {MADV_DONTFORK, MADV_WIPEONFORK, MADV_DONTDUMP, MADV_MERGEABLE, MADV_RANDOM, MADV_SEQUENTIAL};
    for (size_t i = 0; i < WORDS(advices); i++) {
        madvise((void *)(zeroes + i * PAGE / 8), PAGE, advices[i]);
        madvise(page_of((void *)(uintptr_t)memcpy), PAGE, advices[i]);
    }
    prctl(67 /* PR_SET_MEMORY_MERGE */, 1, 0, 0, 0);
}
