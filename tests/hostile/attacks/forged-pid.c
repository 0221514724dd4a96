/* Has the control area name another child of the caller as the body's process. */
#include "hostile.h"

static void strike(void)
{
    forge("pid", (uint32_t)sibling());
    forge("keeper", (uint32_t)sibling());
}
