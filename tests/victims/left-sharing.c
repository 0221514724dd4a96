/* A child that shares the memory outlives the run, and writes into it. The argument says how the run
 * makes it: clone, with a stack of its own, or vfork, after which the child kills the run itself. */
#define VICTIM_END
#include "maps.h"
#include <sched.h>
#include <signal.h>
#include <time.h>

static volatile unsigned long counter, started;
static char child_stack[1 << 14] __attribute__((aligned(16)));

static void check(void)
{
    same("the count of an earlier run's child", (long long)counter, 0);
    same("the note of an earlier run", (long long)started, 0);
    struct timespec short_while = {0, 300000};
    nanosleep(&short_while, NULL);
    same("the count a little later", (long long)counter, 0);
}

/* Some 50 ms of life after the run. */
static void live_on(void)
{
    struct timespec moment = {0, 500000};
    for (int i = 0; i < 100; i++) {
        counter++;
        syscall(SYS_nanosleep, &moment, NULL);
    }
    syscall(SYS_exit, 0);
}

static int in_clone(void *unused)
{
    (void)unused;
    live_on();
    return 0;
}

static void dirty(void)
{
    started = 1;
    if (getenv("VICTIM_PRETEND_STALE") != NULL)
        counter = 1;
}

static void end(void)
{
    if (victim_argc > 1 && strcmp(victim_argv[1], "vfork") == 0) {
        pid_t parent = getpid();
        if (vfork() == 0) {
            kill(parent, SIGKILL);
            live_on();
        }
        fail("vfork has returned");
    }
    MUST(clone(in_clone, child_stack + sizeof child_stack, CLONE_VM | SIGCHLD, NULL));
    while (counter == 0)
        ;
    _exit(0);
}
