/* Commands the keeper to be a shell, which executes what orders name. */
#include "hostile.h"

static void strike(void)
{
    forge("command", 1);
    forge("bell", 77);
}
