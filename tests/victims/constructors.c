/* What constructors may have done before main, that a snapshot at main cannot simply keep. The
 * argument says what: thread (one runs), shared (memory is shared), pipe (something is in it),
 * timer (one is set), signals (a handler is set, one is blocked), children (one lives), open and
 * creat (a file is made by this system call). Each run must find it as made for this very process. */
#include "maps.h"
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

static const char *what = "";
static volatile unsigned long ticks;
static volatile int *shared;
static int ends[2];
static pid_t child;
static pthread_t ticker;

static void *tick(void *unused)
{
    for (;; usleep(200))
        ticks++;
    return unused;
}

static void handler(int number) { (void)number; }

/* A name of this process's own, which takes no system call. */
static const char *own_name(void)
{
    static char name[40];
    unsigned long long random;
    memcpy(&random, (const void *)getauxval(AT_RANDOM), sizeof random);
    snprintf(name, sizeof name, "made-%llx", random);
    return name;
}

__attribute__((constructor)) static void construct(int argc, char **argv)
{
    what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "thread") == 0)
        same("pthread_create", pthread_create(&ticker, NULL, tick, NULL), 0);
    if (strcmp(what, "shared") == 0)
        *(shared = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                             0))) = 5;
    if (strcmp(what, "pipe") == 0) {
        MUST(pipe(ends));
        MUST(write(ends[1], "abc", 3));
    }
    if (strcmp(what, "open") == 0)
        MUST(close(MUST(syscall(SYS_open, own_name(), O_WRONLY | O_CREAT, 0600))));
    if (strcmp(what, "creat") == 0)
        MUST(close(MUST(syscall(SYS_creat, own_name(), 0600))));
    if (strcmp(what, "timer") == 0)
        MUST(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {1000, 0}}, NULL));
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    if (strcmp(what, "signals") == 0 && signal(SIGUSR1, handler) != SIG_ERR)
        MUST(sigprocmask(SIG_BLOCK, &mask, NULL));
    if (strcmp(what, "children") == 0 && (child = MUST(fork())) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep(20);
        _exit(0);
    }
}

static void check(void)
{
    char buffer[8] = "";
    struct itimerval timer;
    MUST(getitimer(ITIMER_REAL, &timer));
    if (strcmp(what, "thread") == 0) {
        unsigned long before = ticks;
        for (int i = 0; ticks == before; i++, usleep(1000))
            if (i == 5000)
                fail("the constructor's thread does not run");
        same("Threads", (long long)status_field("Threads", 10), 2);
        same("the ticker is a thread of this process", pthread_kill(ticker, 0), 0);
        if (ticks > 1000000)
            fail("the constructor's thread has ticked %lu times", ticks);
    } else if (strcmp(what, "shared") == 0) {
        expect_perms(shared, "rw-s", "the shared memory");
        same("the shared memory", *shared, 5);
    } else if (strcmp(what, "pipe") == 0) {
        same("bytes in the pipe", read(ends[0], buffer, sizeof buffer), 3);
        same_text("the text in the pipe", buffer, "abc");
        MUST(write(ends[1], "abc", 3));
    } else if (strcmp(what, "open") == 0 || strcmp(what, "creat") == 0) {
        same("the constructor's file", access(own_name(), F_OK), 0);
    } else if (strcmp(what, "timer") == 0) {
        same("the constructor's timer runs", timer.it_value.tv_sec >= 900, 1);
    } else if (strcmp(what, "signals") == 0) {
        same("SigBlk", (long long)status_field("SigBlk", 16), 1 << (SIGUSR2 - 1));
        same("SigCgt", (long long)status_field("SigCgt", 16), 1 << (SIGUSR1 - 1));
    } else if (strcmp(what, "children") == 0) {
        same("the constructor's child", waitpid(child, NULL, WNOHANG), 0);
    }
}

static void dirty(void)
{
    sigset_t none;
    sigemptyset(&none);
    if (shared != NULL)
        *shared = 99;
    if (ends[1] != 0)
        MUST(write(ends[1], "stale", 5));
    if (child != 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    if (strcmp(what, "open") == 0 || strcmp(what, "creat") == 0)
        MUST(unlink(own_name()));
    ticks += 100000000;
    MUST(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL));
    MUST(sigprocmask(SIG_SETMASK, &none, NULL));
}
