/* Sends its keeper every signal that it may ignore. */
#include "hostile.h"

static void strike(void)
{
    pid_t held = keeper();
    for (int number = 1; held != 0 && number <= 64; number++)
        if (number != SIGKILL && number != SIGSTOP)
            kill(held, number);
}
