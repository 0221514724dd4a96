/* Changes registers of its keeper by ptrace. */
#include "hostile.h"
#include <sys/ptrace.h>
#include <sys/user.h>

static void strike(void)
{
    pid_t held = keeper();
    struct user_regs_struct registers;
    int status;
    if (held == 0)
        return;
    if (ptrace(PTRACE_SEIZE, held, 0, 0) != 0)
        LACK("PTRACE_SEIZE");
    ptrace(PTRACE_INTERRUPT, held, 0, 0);
    waitpid(held, &status, __WALL);
    ptrace(PTRACE_GETREGS, held, 0, &registers);
    registers.rsp = registers.rip = (unsigned long)zeroes;
    ptrace(PTRACE_SETREGS, held, 0, &registers);
    ptrace(PTRACE_DETACH, held, 0, 0);
}
