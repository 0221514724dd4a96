/* Writes every state into the control area, at last that of a process that waits. */
#include "hostile.h"

static void strike(void)
{
    for (uint32_t state = 0; state < 12; state++) {
        forge("state", state);
        pause_us(300);
    }
    forge("state", 2);
}
