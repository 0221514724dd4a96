/* Ends while threads write into its memory. */
#include "hostile.h"
#include <pthread.h>

static void *busy(void *unused)
{
    for (uint64_t count = 0;; count++)
        zeroes[count % (sizeof zeroes / 8)] = count;
    return unused;
}


static void strike(void)
{
    for (int number = 0; number < 16; number++) {
        pthread_t thread;
        pthread_create(&thread, NULL, busy, NULL);
    }
    pause_us(2000);
}
