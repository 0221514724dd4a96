/* All 64 dispositions, the mask, what is pending and the alternate stack. */
#include "maps.h"
#include <signal.h>
#include <ucontext.h>

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

static char alternate[1 << 16];
static volatile int handled;

static void handler(int number)
{
    (void)number;
    handled++;
}

static void check(void)
{
    unsigned long long ignored = 0, wanted = expected("SIGIGN") ? 0 : ~0ull;
    if (expected("SIGIGN") != NULL)
        wanted = strtoull(expected("SIGIGN"), NULL, 16);
    for (int number = 1; number <= 64; number++) {
        struct kernel_action action;
        MUST(syscall(SYS_rt_sigaction, number, NULL, &action, 8));
        if (action.handler == (void *)SIG_IGN)
            ignored |= 1ull << (number - 1);
        else if (action.handler != (void *)SIG_DFL)
            fail("signal %d has a handler at %p", number, action.handler);
    }
    if (wanted != ~0ull && ignored != wanted)
        fail("the ignored signals are %#llx, not %#llx", ignored, wanted);
    same("SigIgn", (long long)status_field("SigIgn", 16), (long long)ignored);
    same("SigCgt", (long long)status_field("SigCgt", 16), 0);
    same("SigPnd", (long long)status_field("SigPnd", 16), 0);
    same("ShdPnd", (long long)status_field("ShdPnd", 16), 0);
    unsigned long mask = 0;
    MUST(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8));
    same("SigBlk", (long long)status_field("SigBlk", 16), (long long)mask);
    const char *blocked = expected("SIGBLK");
    same("the mask", (long long)mask, blocked ? (long long)strtoull(blocked, NULL, 16) : 0);
    stack_t stack;
    MUST(sigaltstack(NULL, &stack));
    same("the alternate stack's flags", stack.ss_flags, SS_DISABLE);
    same("the alternate stack's size", (long long)stack.ss_size, 0);
    same("handled signals", handled, 0);
    expect_words((uint64_t *)(((uintptr_t)alternate + 7) & ~(uintptr_t)7), 4096, 0,
                 "the memory of the alternate stack");
}

static void dirty(void)
{
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    MUST(sigaltstack(&stack, NULL));
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
    for (int number = 1; number <= 64; number++)
        if (number != SIGKILL && number != SIGSTOP && number != SIGTRAP)
            sigaction(number, &action, NULL);
    kill(getpid(), SIGUSR1);
    same("handled signals in the run", handled, 1);
    memset(alternate, 1, 8192);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    union sigval value = {.sival_int = 7};
    for (int i = 0; i < 10; i++)
        sigqueue(getpid(), SIGRTMIN + 3, value);
    kill(getpid(), SIGTERM);
    kill(getpid(), SIGALRM);
}
