/* A new thread's stack is zero but for what its start put there, and a guard lies below it. */
#include "maps.h"
#include <alloca.h>
#include <pthread.h>

#define DEEP ((size_t)64 << 10)
#define THREADS 8
static const volatile uint64_t anti_mark = ~UINT64_C(0x7468726474687264);

static void *look(void *unused)
{
    pthread_attr_t attr;
    void *base;
    size_t size, guard;
    same("pthread_getattr_np", pthread_getattr_np(pthread_self(), &attr), 0);
    pthread_attr_getstack(&attr, &base, &size);
    pthread_attr_getguardsize(&attr, &guard);
    pthread_attr_destroy(&attr);
    uint64_t here, anti = anti_mark;
    for (uint64_t *at = &here - DEEP / 8; at < &here; at++)
        if (~*(volatile uint64_t *)at == anti)
            fail("a new thread's stack holds an earlier run's mark");
    if (guard < PAGE || (readable(base, 1) && readable((char *)base - PAGE, 1)))
        fail("a new thread's stack has no guard");
    return unused;
}

static void *fill(void *unused)
{
    fill_words(alloca(DEEP), DEEP, ~anti_mark);
    void *volatile leaked = malloc(1000); /* makes an arena of this thread's own */
    (void)leaked;
    return unused;
}

static void in_threads(void *(*what)(void *), int detach)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        same("pthread_create", pthread_create(&threads[i], NULL, what, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        same("pthread end",
             detach && i % 2 ? pthread_detach(threads[i]) : pthread_join(threads[i], NULL), 0);
}

static void check(void)
{
    if (status_field("VmSize", 10) > 256 << 10)
        fail("the address space starts with %llu kB", status_field("VmSize", 10));
    in_threads(look, 0);
}

static void dirty(void) { in_threads(fill, 1); }
