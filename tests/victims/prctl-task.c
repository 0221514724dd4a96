/* Settings by prctl and arch_prctl that belong to the process, not to its memory. */
#include "maps.h"
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>

static const struct {
    const char *key;
    int get, fresh;
} values[] = {
    {"NO_NEW_PRIVS", PR_GET_NO_NEW_PRIVS, 0}, {"KEEPCAPS", PR_GET_KEEPCAPS, 0},
    {"TIMING", PR_GET_TIMING, 0},             {"SECUREBITS", PR_GET_SECUREBITS, 0},
    {"SECCOMP", PR_GET_SECCOMP, 0},           {"MCE_KILL", PR_MCE_KILL_GET, 2},
};

/* As the caller says, else as a process has it by default; a kernel may know nothing of it. */
static void value(const char *key, int got, int fresh)
{
    const char *wanted = expected(key);
    if (got >= 0)
        same(key, got, wanted ? atoi(wanted) : fresh);
}

static void check(void)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        value(values[i].key, prctl(values[i].get, 0, 0, 0, 0), values[i].fresh);
    int number = -1;
    MUST(prctl(PR_GET_PDEATHSIG, &number));
    same("the parent's death signal", number, 0);
    MUST(prctl(PR_GET_CHILD_SUBREAPER, &number));
    same("subreaper", number, 0);
    if (prctl(PR_GET_TSC, &number) == 0)
        same("time stamp counter", number, PR_TSC_ENABLE);
    unsigned long base = 1;
    MUST(syscall(SYS_arch_prctl, 0x1004 /* get gs */, &base));
    same("the gs base", (long long)base, 0);
    same("cpuid allowed", syscall(SYS_arch_prctl, 0x1011, 0) != 0, 1);
    char text[64];
    slurp("/proc/self/timerslack_ns", text, sizeof text);
    expect_number("TIMERSLACK", 10, atoll(text));
    const char *wanted = expected("PERSONALITY");
    same("the personality", personality(0xffffffff), wanted ? strtol(wanted, NULL, 16) : 0);
    value("NO_NEW_PRIVS", (int)status_field("NoNewPrivs", 10), 0);
    expect_number("CAPEFF", 16, (long long)status_field("CapEff", 16));
    expect_number("CAPPRM", 16, (long long)status_field("CapPrm", 16));
    expect_number("CAPBND", 16, (long long)status_field("CapBnd", 16));
    expect_number("CAPINH", 16, (long long)status_field("CapInh", 16));
    expect_number("CAPAMB", 16, (long long)status_field("CapAmb", 16));
}

static void dirty(void)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 999);
    prctl(PR_SET_KEEPCAPS, 1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0);
    prctl(PR_CAPBSET_DROP, 20, 0, 0, 0);
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    syscall(SYS_arch_prctl, 0x1001 /* set gs */, 0x12345000);
    personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}
