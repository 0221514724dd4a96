/* Writes over its arguments, its environment and the vector above them, and over its whole stack. */
#include "hostile.h"

static void strike(void)
{
    struct area stack;
    if (!find_area("[stack]", 0, &stack))
        LACK("[stack]");
    char *from = page_of(__builtin_frame_address(0));
    memset((void *)stack.low, 0x57, (size_t)(from - (char *)stack.low) > 8 * PAGE ? (size_t)(from - (char *)stack.low) - 8 * PAGE : 0);
    char *high = (char *)stack.high;
    memset(environ[0], 0x57, (size_t)(high - environ[0]));
}
