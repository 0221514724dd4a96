/*
 * Creates processes that end at once, one after another, on one processor: `creator WAY COUNT PROGRAM`.
 *
 *   fork     the child ends
 *   vfork    the child ends
 *   spawn    posix_spawn of PROGRAM, which ends
 *
 * Prints the median time of a creation and the wait for its end, in nanoseconds. Before them come some that are not timed.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM = 50 };

extern char **environ;

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void stay_on_the_last_processor(void)
{
    cpu_set_t allowed, only;
    CPU_ZERO(&only);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    for (int number = CPU_SETSIZE - 1; number >= 0; number--) {
        if (CPU_ISSET(number, &allowed)) {
            CPU_SET(number, &only);
            sched_setaffinity(0, sizeof only, &only);
            return;
        }
    }
}

static pid_t create(const char *way, char *program)
{
    char *words[] = {program, NULL};
    pid_t child = -1;

    if (strcmp(way, "fork") == 0) {
        child = fork();
    } else if (strcmp(way, "vfork") == 0) {
        child = vfork();
    } else {
        return posix_spawn(&child, program, NULL, NULL, words, environ) == 0 ? child : -1;
    }
    if (child == 0)
        _exit(0);
    return child;
}

static int by_size(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

int main(int count, char **words)
{
    long timed = count == 4 ? atol(words[2]) : 0;
    int64_t *times = calloc(timed > 0 ? timed : 1, sizeof *times);

    if (timed <= 0 || !times)
        return 2;
    stay_on_the_last_processor();
    for (long number = -WARM; number < timed; number++) {
        int64_t begun = now_ns();
        pid_t child = create(words[1], words[3]);
        int status = -1;

        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "a process cannot be created, or has failed: %d\n", status);
            return 1;
        }
        if (number >= 0)
            times[number] = now_ns() - begun;
    }
    qsort(times, timed, sizeof *times, by_size);
    printf("%lld\n", (long long)times[timed / 2]);
    return 0;
}
