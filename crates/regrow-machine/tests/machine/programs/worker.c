/* Uses the processor, and says what the kernel counts.
 *
 *   worker use MS THREADS KIB    so much processor time in each thread, so much memory
 *   worker wait MS THREADS KIB   the same in a child; prints its number, its processor time in microseconds, its most memory in KiB and how
 *                                long it lived at most in microseconds, as the kernel says when it has used its last processor time
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long milliseconds;

static void stop(const char *why)
{
    perror(why);
    exit(1);
}

static long now_us(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void *use(void *nothing)
{
    while (now_us(CLOCK_THREAD_CPUTIME_ID) < milliseconds * 1000)
        ;
    return nothing;
}

static int work(long threads, long kib)
{
    pthread_t others[64];
    volatile char *memory = malloc(kib * 1024);
    long sum = 0;

    for (long byte = 0; byte < kib * 1024; byte += 512)
        sum += memory[byte] = 1;
    for (long thread = 1; thread < threads; thread++)
        if (pthread_create(&others[thread], NULL, use, NULL) != 0)
            stop("a thread");
    use(NULL);
    for (long thread = 1; thread < threads; thread++)
        pthread_join(others[thread], NULL);
    return sum != kib * 2;
}

/* What /proc says of the processor time of a process. */
static void used(pid_t process, char *text, size_t bytes)
{
    char path[64];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/schedstat", process);
    file = fopen(path, "r");
    if (!file || !fgets(text, bytes, file))
        stop(path);
    fclose(file);
}

static long us(struct timeval time)
{
    return time.tv_sec * 1000000 + time.tv_usec;
}

int main(int count, char **arguments)
{
    char before[128] = "", after[128];
    struct rusage usage;
    siginfo_t ended;
    long begun, life;
    pid_t child;

    if (count != 5)
        stop("usage: worker use|wait MS THREADS KIB");
    milliseconds = atol(arguments[2]);
    if (strcmp(arguments[1], "use") == 0)
        return work(atol(arguments[3]), atol(arguments[4]));
    begun = now_us(CLOCK_MONOTONIC);
    child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "worker", "use", arguments[2], arguments[3], arguments[4], NULL);
        stop("exec");
    }
    if (child < 0 || waitid(P_PID, child, &ended, WEXITED | WNOWAIT) != 0)
        stop("a child");
    life = now_us(CLOCK_MONOTONIC) - begun;
    /* The kernel switches away from it a little later. */
    for (used(child, after, sizeof(after)); strcmp(before, after) != 0; used(child, after, sizeof(after))) {
        strcpy(before, after);
        usleep(20000);
    }
    if (wait4(child, NULL, 0, &usage) != child)
        stop("wait4");
    printf("%d %ld %ld %ld\n", child, us(usage.ru_utime) + us(usage.ru_stime), usage.ru_maxrss, life);
    return 0;
}
