/* Creates children in known ways, each at one place that is three functions deep.
 *
 *   creator WAY COUNT   one way, so often
 *   creator all COUNT   all ways but chain, so often each
 *   creator hold COUNT  the same when a line comes on standard input; ends when that is closed
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *const words[] = {"true", NULL};

#define APART __attribute__((noinline, noclone))
/* A call is not the function's last deed, so that each function has a frame. */
#define BEHIND __asm__ volatile("" ::: "memory")

#define CALLERS(way)                  \
    APART long middle_##way(void)     \
    {                                 \
        long result = site_##way();   \
        BEHIND;                       \
        return result;                \
    }                                 \
    APART long outer_##way(void)      \
    {                                 \
        long result = middle_##way(); \
        BEHIND;                       \
        return result;                \
    }

#define SITE(way, call)             \
    APART long site_##way(void)     \
    {                               \
        long result = (long)(call); \
        BEHIND;                     \
        return result;              \
    }                               \
    CALLERS(way)

SITE(fork, fork())
SITE(system, system("exit 3"))
SITE(popen, popen("exit 3", "r"))
SITE(chain, fork())

/* The child of vfork must not return. */
APART long site_vfork(void)
{
    pid_t child = vfork();

    if (child == 0)
        _exit(0);
    return child;
}
CALLERS(vfork)

APART long site_spawn(void)
{
    pid_t child = -1;

    return posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) == 0 ? child : -1;
}
CALLERS(spawn)

/* With a large frame. */
APART long site_deep(void)
{
    char room[1400];
    long result = fork();

    __asm__ volatile("" : : "r"(room) : "memory");
    return result;
}
CALLERS(deep)

static void stop(const char *why)
{
    perror(why);
    exit(1);
}

static void reap(long child)
{
    int status;

    if (child < 0 || waitpid((pid_t)child, &status, 0) != child || status != 0)
        stop("a child");
}

static void forked(long child)
{
    if (child == 0)
        _exit(0);
    reap(child);
}

/* The child creates a child and ends at once. */
static void chained(long child)
{
    if (child == 0) {
        long second = outer_chain();

        _exit(second < 0);
    }
    reap(child);
}

static void once(const char *way)
{
    if (strcmp(way, "fork") == 0)
        forked(outer_fork());
    else if (strcmp(way, "deep") == 0)
        forked(outer_deep());
    else if (strcmp(way, "vfork") == 0)
        reap(outer_vfork());
    else if (strcmp(way, "spawn") == 0)
        reap(outer_spawn());
    else if (strcmp(way, "chain") == 0)
        chained(outer_chain());
    else if (strcmp(way, "system") == 0) {
        if (WEXITSTATUS((int)outer_system()) != 3)
            stop("system");
    } else if (strcmp(way, "popen") == 0) {
        FILE *pipe = (FILE *)outer_popen();

        if (!pipe || WEXITSTATUS(pclose(pipe)) != 3)
            stop("popen");
    } else
        stop("there is no such way");
}

int main(int count, char **arguments)
{
    static const char *const ways[] = {"fork", "vfork", "spawn", "system", "popen", "deep"};
    long repeats;

    if (count != 3)
        stop("usage: creator WAY COUNT");
    repeats = atol(arguments[2]);
    if (strcmp(arguments[1], "hold") == 0 && getchar() == EOF)
        stop("a line");
    for (long repeat = 0; repeat < repeats; repeat++) {
        if (strcmp(arguments[1], "all") == 0 || strcmp(arguments[1], "hold") == 0) {
            for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
                once(ways[way]);
        } else
            once(arguments[1]);
    }
    if (strcmp(arguments[1], "hold") == 0)
        while (getchar() != EOF)
            ;
    return 0;
}
