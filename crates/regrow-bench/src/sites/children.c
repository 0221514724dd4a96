/*
 * Short children beside endless loops: `children WAY FOLDER CHILDREN`.
 *
 *   plain    nothing is done about it
 *   nicer    each child has niceness -10
 *   oracle   each child comes first (niceness -20, slice 0.1 ms), each loop is easily interrupted (slice 100 ms)
 *
 * There are as many loops as processors. A child begins every 40 ms, or when the one before it has ended. Prints how many children there were,
 * their mean time from creation to end in microseconds, and how often the loops went round in a second.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LOOPS = 256, EVERY_MS = 40, WARM_MS = 500 };

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
};

static void schedule(int nice, uint64_t slice_ns)
{
    struct attributes wanted = {.size = sizeof wanted, .nice = nice, .slice_ns = slice_ns};
    if (syscall(SYS_sched_setattr, 0, &wanted, 0) != 0) {
        perror("sched_setattr");
        _exit(99);
    }
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) != 0) {
    }
}

static uint64_t rounds(volatile uint64_t *counts, long loops)
{
    uint64_t all = 0;
    for (long at = 0; at < loops; at++)
        all += counts[at * 8];
    return all;
}

static void start_loop(const char *way, volatile uint64_t *count)
{
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (strcmp(way, "oracle") == 0)
        schedule(0, 100000000);
    for (;;)
        ++*count;
}

/* A child of one of three kinds; how long it took. */
static int64_t run_child(const char *way, int number)
{
    static char *const kinds[3][8] = {
        {"sh", "-c", "for each in 1 2 3; do /bin/true; done", NULL},
        {"git", "--version", NULL},
        {"cc", "-c", "-o", "one.o", "one.c", NULL},
    };
    int64_t begun = now_ns();
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        if (strcmp(way, "nicer") == 0)
            setpriority(PRIO_PROCESS, 0, -10);
        if (strcmp(way, "oracle") == 0)
            schedule(-20, 100000);
        execvp(kinds[number % 3][0], kinds[number % 3]);
        _exit(98);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fprintf(stderr, "child %d: status %d\n", number, status);
        exit(97);
    }
    return now_ns() - begun;
}

int main(int count, char **words)
{
    if (count != 4 || chdir(words[2]) != 0)
        return 96;
    int children = atoi(words[3]);
    long loops = sysconf(_SC_NPROCESSORS_ONLN);
    loops = loops < MOST_LOOPS ? loops : MOST_LOOPS;
    volatile uint64_t *counts =
        mmap(NULL, MOST_LOOPS * 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED)
        return 95;
    for (long at = 0; at < loops; at++)
        start_loop(words[1], counts + at * 8);
    int64_t begun = now_ns() + (int64_t)WARM_MS * 1000000;
    sleep_until(begun);
    uint64_t before = rounds(counts, loops);
    int64_t all = 0;
    for (int number = 0; number < children; number++) {
        sleep_until(begun + (int64_t)number * EVERY_MS * 1000000);
        all += run_child(words[1], number);
    }
    sleep_until(begun + (int64_t)children * EVERY_MS * 1000000);
    double seconds = (double)(now_ns() - begun) / 1e9;
    printf("%d %.1f %.0f\n", children, (double)all / children / 1000, (double)(rounds(counts, loops) - before) / seconds);
    /* The loops end with this process. */
    return 0;
}
