/* Unmaps the agent's code, its image and its private memory. */
#include "hostile.h"

static void strike(void)
{
    static const char *const names[] = {"memfd:regrow-agent", "memfd:regrow-image", "memfd:regrow-control"};
    struct area area;
    for (size_t i = 0; i < WORDS(names); i++)
        while (find_area(names[i], 0, &area) && munmap((void *)area.low, area.high - area.low) == 0)
            ;
}
