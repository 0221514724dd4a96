/* Says that it died before it was the run: whoever believes it starts the program again. */
#include "hostile.h"

static void strike(void)
{
    forge("broken", 12);
    forge("state", 7);
}
