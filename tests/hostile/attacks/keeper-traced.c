/* Traces its keeper, and leaves it in a stop. */
#include "hostile.h"
#include <sys/ptrace.h>

static void strike(void)
{
    pid_t held = keeper();
    if (held == 0)
        return;
    if (ptrace(PTRACE_SEIZE, held, 0, 0) != 0)
        LACK("PTRACE_SEIZE");
    ptrace(PTRACE_INTERRUPT, held, 0, 0);
}
