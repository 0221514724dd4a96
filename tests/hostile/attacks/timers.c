/* Leaves timers of every sort running. */
#include "hostile.h"

static void strike(void)
{
    struct itimerval soon = {{0, 1000}, {0, 1000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec time = {{0, 1000000}, {0, 1000000}};
    timer_t timer;
    signal(SIGALRM, SIG_IGN);
    signal(SIGVTALRM, SIG_IGN);
    signal(SIGPROF, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    for (int which = 0; which < 3; which++)
        setitimer(which, &soon, NULL);
    for (int number = 0; number < 16; number++)
        if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
            timer_settime(timer, 0, &time, NULL);
}
