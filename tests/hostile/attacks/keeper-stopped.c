/* Stops its keeper. */
#include "hostile.h"

static void strike(void)
{
    pid_t held = keeper();
    if (held != 0)
        kill(held, SIGSTOP);
}
