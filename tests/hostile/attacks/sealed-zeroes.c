/* Seals memory of the program, so that its protection cannot be changed any more. */
#include "hostile.h"

static void strike(void)
{
    fill(zeroes, sizeof zeroes, 0x57414c45);
    if (syscall(462 /* mseal */, zeroes, 2 * PAGE, 0) != 0)
        LACK("mseal");
}
