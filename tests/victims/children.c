/* A run that makes fifty children, reaps half of them and leaves the rest; some have children too,
 * and some live on for a while. Each child finds its own world right. */
#include "maps.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/times.h>

static volatile int prepared, in_parent, in_child, depth;

static void on_prepare(void) { prepared++; }
static void on_parent(void) { in_parent++; }
static void on_child(void) { in_child++; }

static void check(void)
{
    same("wait without children", waitpid(-1, NULL, WNOHANG | __WALL), -1);
    same("errno of that", errno, ECHILD);
    char children[256] = "", path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    if (access(path, R_OK) == 0)
        slurp(path, children, sizeof children);
    same_text("the children", children, "");
    same("calls of the fork handlers", prepared + in_parent + in_child, 0);
    same("the depth of forks", depth, 0);
    struct tms times_now;
    times(&times_now);
    same("processor time of children", times_now.tms_cutime + times_now.tms_cstime, 0);
    struct rusage usage;
    MUST(getrusage(RUSAGE_CHILDREN, &usage));
    same("page faults of children", usage.ru_minflt, 0);
    same("peak memory of children", usage.ru_maxrss, 0);
}

static void child(int number, pid_t parent)
{
    depth++;
    same("depth in a child", depth, 1);
    same("fork handler calls in a child", in_child, 1);
    if (getppid() != parent && number % 2 == 0) /* the parent waits for this one */
        fail("a child's parent is %d, not %d", getppid(), parent);
    same("gettid in a child", gettid(), getpid());
    same("raise in a child", raise(0), 0);
    pthread_mutexattr_t attr;
    pthread_mutex_t mutex;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attr);
    pthread_mutex_lock(&mutex);
    same("second lock in a child", pthread_mutex_lock(&mutex), EDEADLK);
    free(malloc(1000));
    if (number % 10 == 5 && fork() == 0)
        _exit(0);
    if (number % 4 == 3)
        usleep(20000);
    _exit(number);
}

static void dirty(void)
{
    pthread_atfork(on_prepare, on_parent, on_child);
    pid_t children[50], parent = getpid();
    for (int i = 0; i < 50; i++) {
        children[i] = MUST(fork());
        if (children[i] == 0)
            child(i, parent);
    }
    same("fork handler calls", prepared, 50);
    for (int i = 0; i < 50; i += 2) {
        int status;
        same("the child waited for", waitpid(children[i], &status, 0), children[i]);
        same("a child's status", WEXITSTATUS(status), i);
    }
}
