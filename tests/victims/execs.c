/* A run that becomes another program. The argument says which: other (/bin/sh, status 9), self
 * (this program again, in the same process), or nothing (an exec that fails, after which it goes
 * on). */
#define VICTIM_END
#include "maps.h"
#include <pthread.h>
#include <signal.h>

static volatile int stage;
static volatile uint64_t zero[16 * PAGE / 8];

static void check(void)
{
    same("the stage", stage, 0);
    expect_words(zero, sizeof zero, 0, "bss");
    same("Threads", (long long)status_field("Threads", 10), 1);
}

static void *spin(void *unused)
{
    for (;;)
        zero[1]++;
    return unused;
}

static void dirty(void)
{
    stage = 1;
    fill_words(zero, sizeof zero, 0xdead);
}

static void end(void)
{
    const char *what = victim_argc > 1 ? victim_argv[1] : "other";
    pthread_t thread;
    same("pthread_create", pthread_create(&thread, NULL, spin, NULL), 0);
    char pid[32];
    if (strcmp(what, "other") == 0) {
        snprintf(pid, sizeof pid, "test $$ = %d && exit 9", getpid());
        execl("/bin/sh", "sh", "-c", pid, NULL);
    } else if (strcmp(what, "self") == 0) {
        snprintf(pid, sizeof pid, "%d", getpid());
        execl("/proc/self/exe", victim_argv[0], "again", pid, NULL);
    } else if (strcmp(what, "nothing") == 0) {
        same("exec of nothing", execl("/no/such/program", "x", NULL), -1);
        same("errno of that", errno, ENOENT);
        same("the stage after it", stage, 1);
        exit(0);
    } else if (strcmp(what, "again") == 0) {
        same("the pid after exec", getpid(), atoi(victim_argv[2]));
        exit(0);
    }
    fail("exec: %s", strerror(errno));
}
