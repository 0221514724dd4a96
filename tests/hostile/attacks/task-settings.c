/* Changes all that prctl and its like change of a task. */
#include "hostile.h"

static void strike(void)
{
    prctl(PR_SET_NAME, "left");
    prctl(PR_SET_KEEPCAPS, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 777777);
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
    prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    prctl(PR_SET_SPECULATION_CTRL, 0, PR_SPEC_DISABLE, 0, 0);
    syscall(SYS_arch_prctl, 0x1012 /* ARCH_SET_CPUID */, 0);
    syscall(SYS_personality, 0x0040000 | 0x0400000);
    umask(0777);
    if (chdir("/proc") != 0 || setpriority(PRIO_PROCESS, 0, 11) != 0)
        end_with(1, "chdir or setpriority");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
