/* Handles, ignores and blocks signals, has some pending, and an alternative stack. */
#include "hostile.h"

static void handler(int number) { data[0] = (uint64_t)number; }


static void strike(void)
{
    static char stack[1 << 14];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (int number = 1; number <= 64; number++) {
        struct sigaction action = {.sa_handler = number % 2 ? SIG_IGN : handler, .sa_flags = SA_ONSTACK};
        if (number != SIGKILL && number != SIGSTOP) {
            sigaction(number, &action, NULL);
            if (number % 3 == 0)
                raise(number);
        }
    }
}
