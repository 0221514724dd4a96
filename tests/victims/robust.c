/* Robust mutexes: the kernel has this thread's list, and the list starts empty. */
#include "maps.h"
#include <pthread.h>

static pthread_mutex_t kept;
static volatile int initialised;
static volatile unsigned long *list_head;

static void make(pthread_mutex_t *mutex, int shared)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attr, shared);
    same("pthread_mutex_init", pthread_mutex_init(mutex, &attr), 0);
}

static void *die_holding(void *mutex)
{
    same("lock", pthread_mutex_lock(mutex), 0);
    return NULL;
}

static void check_in_thread(void)
{
    pthread_mutex_t mutex;
    make(&mutex, PTHREAD_PROCESS_PRIVATE);
    pthread_t thread;
    same("pthread_create", pthread_create(&thread, NULL, die_holding, &mutex), 0);
    pthread_join(thread, NULL);
    same("lock after its owner's end", pthread_mutex_lock(&mutex), EOWNERDEAD);
    same("consistent", pthread_mutex_consistent(&mutex), 0);
    same("unlock", pthread_mutex_unlock(&mutex), 0);
}

static void check_in_child(void)
{
    pthread_mutex_t *mutex = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    make(mutex, PTHREAD_PROCESS_SHARED);
    pid_t pid = MUST(fork());
    if (pid == 0) {
        die_holding(mutex);
        _exit(0);
    }
    MUST(waitpid(pid, NULL, 0));
    same("lock after the owning process' end", pthread_mutex_lock(mutex), EOWNERDEAD);
    same("unlock", pthread_mutex_unlock(mutex), 0);
    munmap(mutex, PAGE);
}

static void check(void)
{
    size_t size = 0;
    MUST(syscall(SYS_get_robust_list, 0, &list_head, &size));
#ifdef __GLIBC__
    same("the size of the kernel's robust list", (long long)size, 24);
    if (list_head == NULL || *list_head != (uintptr_t)list_head)
        fail("the robust list is not empty");
    if (((uintptr_t)list_head ^ (uintptr_t)pthread_self()) >> 14)
        fail("the robust list is not in the thread descriptor");
#endif
    same("the kept mutex is initialised", initialised, 0);
    check_in_thread();
    check_in_child();
}

/* Leaves the list with an element in memory that will be something else. */
static void dirty(void)
{
    make(&kept, PTHREAD_PROCESS_PRIVATE);
    initialised = 1;
    same("lock", pthread_mutex_lock(&kept), 0);
    pthread_mutex_t *in_heap = malloc(sizeof *in_heap);
    make(in_heap, PTHREAD_PROCESS_PRIVATE);
    same("lock", pthread_mutex_lock(in_heap), 0);
}
