/* Says that its order was refused: whoever believes it starts the program again. */
#include "hostile.h"

static void strike(void)
{
    forge("state", 3);
    forge("errno", 2);
    forge("pid", (uint32_t)getpid());
}
