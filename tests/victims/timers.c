/* Timers of every kind: none runs at the start; the run leaves them running, some close to expiry. */
#include "maps.h"
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static volatile int fired;
static sem_t called;

static void on_signal(int number)
{
    (void)number;
    fired++;
}

static void on_thread(union sigval value)
{
    (void)value;
    sem_post(&called);
}

static void check(void)
{
    same("fired timers", fired, 0);
    static const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    for (int i = 0; i < 3; i++) {
        struct itimerval timer;
        MUST(getitimer(kinds[i], &timer));
        if (timer.it_value.tv_sec || timer.it_value.tv_usec || timer.it_interval.tv_sec ||
            timer.it_interval.tv_usec)
            fail("interval timer %d runs", kinds[i]);
    }
    same("seconds left of an alarm", alarm(0), 0);
    char text[512] = "";
    if (access("/proc/self/timers", R_OK) == 0)
        slurp("/proc/self/timers", text, sizeof text);
    if (text[0] != 0)
        fail("a POSIX timer is there: %.*s", (int)strcspn(text, "\n"), text);
}

/* A timer that calls in a thread of the libc's own, which a stale libc believes to have started. */
static void call_in_thread(void)
{
    sem_init(&called, 0, 0);
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_thread};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec soon = {.it_value = {0, 1000000}};
    MUST(timer_settime(timer, 0, &soon, NULL));
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 20;
    while (sem_timedwait(&called, &limit) != 0)
        if (errno != EINTR)
            fail("a timer's thread does not call: %s", strerror(errno));
}

static void dirty(void)
{
    call_in_thread();
    signal(SIGALRM, on_signal);
    signal(SIGVTALRM, on_signal);
    signal(SIGPROF, on_signal);
    signal(SIGUSR1, on_signal);
    struct itimerval interval = {{0, 2000}, {0, 500}};
    MUST(setitimer(ITIMER_REAL, &interval, NULL));
    MUST(setitimer(ITIMER_VIRTUAL, &interval, NULL));
    MUST(setitimer(ITIMER_PROF, &interval, NULL));
    for (int i = 0; i < 5; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        timer_t timer;
        MUST(timer_create(i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &event, &timer));
        struct itimerspec often = {{0, 3000000}, {0, 500000}};
        MUST(timer_settime(timer, 0, &often, NULL));
    }
    while (fired == 0)
        ;
}
