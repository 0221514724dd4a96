/* sched_getcpu, which reads what the kernel writes into the thread's rseq area, tells the truth. */
#include "maps.h"
#include <pthread.h>
#include <sched.h>

#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define HAS_RSEQ 1
#endif

static void check_on(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    MUST(sched_setaffinity(0, sizeof one, &one));
    unsigned truth = 0;
    MUST(syscall(SYS_getcpu, &truth, NULL, NULL));
    same("the processor that getcpu tells", truth, cpu);
    same("the processor that sched_getcpu tells", sched_getcpu(), cpu);
#ifdef HAS_RSEQ
    const volatile struct rseq *area =
        (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    if (__rseq_size == 0)
        return; /* the kernel has none, or a tunable turned it off */
    same("rseq's processor", area->cpu_id, cpu);
    same("rseq's first processor", area->cpu_id_start, cpu);
#endif
}

static void *on_each(void *unused)
{
    cpu_set_t cpus;
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus))
            check_on(i);
    MUST(sched_setaffinity(0, sizeof cpus, &cpus));
    return unused;
}

static void check(void)
{
    on_each(NULL);
    pthread_t thread;
    same("pthread_create", pthread_create(&thread, NULL, on_each, NULL), 0);
    pthread_join(thread, NULL);
}

static void dirty(void)
{
#ifdef HAS_RSEQ
    struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
    syscall(SYS_rseq, area, 32, 1 /* unregister */, RSEQ_SIG);
    memset(area, 0x11, 20);
#endif
}
