/* Has the kernel tell other arguments and another environment of it, and move its break. */
#include "hostile.h"
#define OTHER_BOUNDS
#include "memory-map.h"

static void strike(void)
{
    set_map(NULL, 0, -1);
}
