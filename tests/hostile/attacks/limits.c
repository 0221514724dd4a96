/* Lowers every limit of its own. */
#include "hostile.h"

static void strike(void)
{
    for (int number = 0; number < 16; number++) {
        struct rlimit limit = {1 << 20, 1 << 20};
        setrlimit(number, &limit);
    }
}
