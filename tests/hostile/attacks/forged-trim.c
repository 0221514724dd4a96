/* Commands the keeper to trim the body and to map pages, while the run goes on. */
#include "hostile.h"

static void strike(void)
{
    for (uint32_t command = 1; command < 6; command++) {
        forge("command", command);
        forge("state", 3);
        forge("bell", command);
        pause_us(30000);
    }
}
