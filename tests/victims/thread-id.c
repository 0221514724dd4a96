/* The thread descriptor knows its own thread: what libc does with the tid it keeps there. */
#include "maps.h"
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

static volatile int handled_by;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, plain = PTHREAD_MUTEX_INITIALIZER;

static void handler(int number)
{
    (void)number;
    handled_by = gettid();
}

static void check_mutex(int type, int second)
{
    pthread_mutexattr_t attr;
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, type);
    pthread_mutex_init(&mutex, &attr);
    same("lock", pthread_mutex_lock(&mutex), 0);
#ifdef __GLIBC__
    same("a mutex's owner", mutex.__data.__owner, gettid());
#endif
    same("second lock", pthread_mutex_lock(&mutex), second);
    same("unlock", pthread_mutex_unlock(&mutex), 0);
}

static void *in_thread(void *main_thread)
{
    check_mutex(PTHREAD_MUTEX_ERRORCHECK, EDEADLK);
    same("trylock of another's mutex", pthread_mutex_trylock(&plain), EBUSY);
    same("signal to the main thread", pthread_kill(*(pthread_t *)main_thread, SIGUSR2), 0);
    return (void *)(intptr_t)gettid();
}

static void check(void)
{
    same("gettid", gettid(), getpid());
    char self[32] = "";
    MUST(readlink("/proc/self", self, sizeof self - 1));
    same("/proc/self", atoi(self), getpid());
    check_mutex(PTHREAD_MUTEX_ERRORCHECK, EDEADLK);
    check_mutex(PTHREAD_MUTEX_RECURSIVE, 0);
    same("a static mutex is free", pthread_mutex_trylock(&held), 0);
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    handled_by = 0;
    same("raise", raise(SIGUSR1), 0);
    same("the thread that a raised signal reaches", handled_by, gettid());
    handled_by = 0;
    pthread_mutex_lock(&plain);
    pthread_t thread, self_thread = pthread_self();
    void *result;
    same("pthread_create", pthread_create(&thread, NULL, in_thread, &self_thread), 0);
    same("pthread_join", pthread_join(thread, &result), 0);
    same("the thread that pthread_kill reaches", handled_by, gettid());
    pthread_mutex_unlock(&plain);
    int *tid_word = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &tid_word) == 0) {
        if (tid_word == NULL)
            fail("no word is cleared at this thread's end");
#ifdef __GLIBC__ /* musl has its thread list's lock there */
        same("the word that is cleared at this thread's end", *tid_word, gettid());
#endif
    }
    printf("%d\n", getpid());
}

/* The tid word is the thread descriptor's own: every later use of it goes wrong. */
static void dirty(void)
{
    int *tid_word = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &tid_word) == 0)
        *tid_word = 99999999;
    syscall(SYS_set_tid_address, &handled_by);
}
