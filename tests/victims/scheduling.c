/* Niceness, policy, affinity, I/O priority, timer slack, NUMA policy: as the caller has them. */
#include "maps.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile uint64_t zero[4 * PAGE / 8] __attribute__((aligned(4096)));

static long policy_of(void *address)
{
    int mode = -1;
    long result = syscall(SYS_get_mempolicy, &mode, NULL, 0, address, address != NULL ? 2 : 0);
    return result == 0 ? mode : 0; /* a kernel without NUMA has only the default */
}

static void check(void)
{
    errno = 0;
    int nice_value = getpriority(PRIO_PROCESS, 0);
    expect_number("NICE", 10, nice_value);
    expect_number("SCHED_POLICY", 10, sched_getscheduler(0));
    struct sched_param param;
    MUST(sched_getparam(0, &param));
    expect_number("SCHED_PRIORITY", 10, param.sched_priority);
    cpu_set_t cpus;
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    unsigned long long low_cpus = 0;
    for (int i = 0; i < 64; i++)
        low_cpus |= (unsigned long long)!!CPU_ISSET(i, &cpus) << i;
    expect_number("CPUS", 16, (long long)low_cpus);
    expect_number("IOPRIO", 10, syscall(SYS_ioprio_get, 1, 0));
    expect_number("TIMERSLACK", 10, prctl(PR_GET_TIMERSLACK));
    same("the process's NUMA policy", policy_of(NULL), 0);
    same("the NUMA policy of bss", policy_of((void *)zero), 0);
    same("the NUMA policy of bss further on", policy_of((void *)(zero + PAGE / 8)), 0);
    same("the NUMA policy of the stack", policy_of(__builtin_frame_address(0)), 0);
    expect_words(zero, sizeof zero, 0, "bss");
}

static void dirty(void)
{
    unsigned long node = 1;
    syscall(SYS_mbind, zero, 2 * PAGE, 2 /* bind */, &node, 64, 0);
    syscall(SYS_mbind, zero + 3 * PAGE / 8, PAGE, 1 /* preferred */, &node, 64, 0);
    syscall(SYS_mbind, (uintptr_t)__builtin_frame_address(0) & ~(PAGE - 1), PAGE, 2, &node, 64, 0);
    syscall(SYS_set_mempolicy, 3 /* interleave */, &node, 64);
    fill_words(zero, sizeof zero, 0xdead);
    prctl(PR_SET_TIMERSLACK, 777777);
    syscall(SYS_ioprio_set, 1, 0, 3 << 13);
    struct sched_param param = {0};
    sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &param);
    MUST(setpriority(PRIO_PROCESS, 0, 15));
    cpu_set_t cpus, one;
    MUST(sched_getaffinity(0, sizeof cpus, &cpus));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &cpus))
            CPU_SET(i, &one);
    MUST(sched_setaffinity(0, sizeof one, &one));
}
