/* Says that it never took its order, and ends. */
#include "hostile.h"

static void strike(void)
{
    forge("broken", 12);
    forge("state", 3);
}
