/* The main thread ends first; another thread goes on and ends the process with status 7. */
#define VICTIM_END
#include "maps.h"
#include <pthread.h>

static volatile int stage;
static pthread_t main_thread;

static void *last(void *unused)
{
    pthread_join(main_thread, NULL);
    stage = 2;
    exit(7);
    return unused;
}

static void check(void) { same("the stage", stage, 0); }

static void dirty(void) { stage = 1; }

static void end(void)
{
    pthread_t thread;
    main_thread = pthread_self();
    same("pthread_create", pthread_create(&thread, NULL, last, NULL), 0);
    pthread_exit(NULL);
}
