/* Leaves a state in the control area that says that the run goes on. */
#include "hostile.h"

static void strike(void)
{
    forge("state", 3);
}
