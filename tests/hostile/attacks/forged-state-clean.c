/* Leaves a state in the control area that says that the body waits to be compared. */
#include "hostile.h"

static void strike(void)
{
    forge("state", 6);
    forge("verify", 1);
}
