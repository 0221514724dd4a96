/* Threads that still run, wait or write when the process ends. */
#include "maps.h"
#include <pthread.h>

static volatile unsigned long counter, others[3];
static int never[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void *busy(void *unused)
{
    for (;;)
        counter++;
    return unused;
}

static void *reading(void *unused)
{
    char byte;
    others[0] = 1;
    if (read(never[0], &byte, 1) < 0)
        return unused;
    return unused;
}

static void *waiting(void *unused)
{
    pthread_mutex_lock(&mutex);
    others[1] = 1;
    for (;;)
        pthread_cond_wait(&condition, &mutex);
    return unused;
}

static void *allocating(void *unused)
{
    for (others[2] = 1;;)
        free(memset(malloc(3000), 1, 3000));
    return unused;
}

static void check(void)
{
    same("Threads", (long long)status_field("Threads", 10), 1);
    unsigned long before = counter;
    same("the busy thread's counter", (long long)before, 0);
    for (int i = 0; i < 3; i++)
        same("a thread's note", (long long)others[i], 0);
    same("a static mutex is free", pthread_mutex_trylock(&mutex), 0);
    pthread_mutex_unlock(&mutex);
    usleep(500);
    same("the busy thread's counter later", (long long)counter, 0);
}

static void dirty(void)
{
    void *(*const jobs[])(void *) = {busy, reading, waiting, allocating};
    MUST(pipe(never));
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        same("pthread_create", pthread_create(&thread, NULL, jobs[i], NULL), 0);
        pthread_detach(thread);
    }
    while (counter < 1000 || !others[0] || !others[1] || !others[2])
        usleep(100);
}
