/* Says that its order was refused: whoever believes it starts the program again. */
#include "hostile.h"

static void strike(void)
{
    forge("refused", 1);
    forge("errno", 2);
    forge("refused_pid", (uint32_t)getpid());
}
