/* The ways to end without a signal; the argument says which: exit, _exit, quick, thread,
 * raw. Handlers run in their order, once, and only this run's. */
#define VICTIM_END
#include "maps.h"
#include <pthread.h>

static volatile int registered;

static void first(void) { puts("first"); }
static void second(void) { puts("second"); }
static void quick(void)
{
    puts("quick");
    fflush(stdout);
}

__attribute__((destructor)) static void destruct(void)
{
    puts("destructor");
}

static void check(void)
{
    same("registered handlers", registered, 0);
    same("bytes waiting in stdout", ftell(stdout) > 0, 0);
}

static void dirty(void)
{
    registered = 1;
    setvbuf(stdout, NULL, _IOFBF, 0); /* musl writes a first line at once otherwise */
    atexit(first);
    atexit(second);
    at_quick_exit(quick);
    puts("run");
}

static void *in_thread(void *unused)
{
    exit(3);
    return unused;
}

static void end(void)
{
    const char *how = victim_argc > 1 ? victim_argv[1] : "exit";
    pthread_t thread;
    if (strcmp(how, "_exit") == 0)
        _exit(4);
    if (strcmp(how, "quick") == 0)
        quick_exit(5);
    if (strcmp(how, "raw") == 0)
        syscall(SYS_exit, 6); /* of this thread; the last one ends the process */
    if (strcmp(how, "thread") == 0) {
        pthread_create(&thread, NULL, in_thread, NULL);
        sleep(20);
        fail("still alive");
    }
    exit(256 + 2); /* the status is its low byte */
}
