/* Makes many processes, and waits for none. */
#include "hostile.h"

static void strike(void)
{
    for (int number = 0; number < 64; number++)
        if (fork() == 0)
            _exit(0);
    pause_us(2000);
    while (wait(NULL) > 0)
        ;
}
