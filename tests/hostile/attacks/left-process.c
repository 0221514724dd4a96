/* Does nothing but leave processes behind. */
#include "hostile.h"

static void strike(void)
{
    data[0] = 0x57414c45;
}
