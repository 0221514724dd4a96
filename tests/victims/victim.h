/* The frame that every victim written in C stands in.
 *
 * A victim defines check(), which fails unless the world it runs in is fresh, and dirty(), which
 * leaves as much behind in that world as it can. A run is check(), dirty(), end(). The default
 * end() is exit(0); a victim that ends otherwise defines VICTIM_END before it includes this file
 * and writes its own.
 *
 * A victim proves that it can fail when VICTIM_PRETEND_STALE is set:
 *   1      check(), dirty(), check() in one process;
 *   space  the whole run, with its end, in a child that shares this address space, as a recycler
 *          that forgets to reset would do it; then check() in what that run left behind.
 * In both the last check() must fail. Exit status 0 then says that the victim noticed nothing.
 */
#ifndef VICTIM_H
#define VICTIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MAYBE __attribute__((unused))
#define SKIPPED 77 /* the kernel lacks what the victim is about */

static void check(void);
static void dirty(void);
static void end(void);

static int victim_argc, victim_errno;
static char **victim_argv, **victim_envp;

/* Says in one line what differs, and ends the process without any of libc's own ending. */
MAYBE static void vsay(int status, const char *format, va_list list)
{
    char line[512];
    int n = snprintf(line, sizeof line, "victim %s: ", VICTIM);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, list);
    n = n + m < (int)sizeof line - 1 ? n + m : (int)sizeof line - 2;
    line[n++] = '\n';
    if (write(2, line, (size_t)n) != n)
        status = 2;
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

MAYBE __attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsay(1, format, list);
    __builtin_unreachable();
}

/* Ends a victim whose feature the kernel or the machine lacks. */
MAYBE __attribute__((format(printf, 1, 2), noreturn)) static void skip(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsay(SKIPPED, format, list);
    __builtin_unreachable();
}

#ifdef __cplusplus
#define DEDUCED auto
#else
#define DEDUCED __auto_type
#endif

/* For what the victim needs in order to dirty its world: a failure there is a failure too. */
#define MUST(call)                                                                                \
    __extension__({                                                                               \
        DEDUCED must_ = (call);                                                               \
        if ((intptr_t)must_ == -1)                                                                \
            fail("%s: %s", #call, strerror(errno));                                               \
        must_;                                                                                    \
    })

MAYBE static void same(const char *what, long long got, long long want)
{
    if (got != want)
        fail("%s is %lld, not %lld", what, got, want);
}

MAYBE static void same_text(const char *what, const char *got, const char *want)
{
    if (strcmp(got, want) != 0)
        fail("%s is '%.150s', not '%.150s'", what, got, want);
}

/* What the caller says that it gave: EXPECT_<key>, or NULL when it does not say. */
MAYBE static const char *expected(const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "EXPECT_%s", key);
    return getenv(name);
}

MAYBE static void expect_number(const char *key, int base, long long got)
{
    const char *want = expected(key);
    if (want != NULL)
        same(key, got, (long long)strtoull(want, NULL, base));
}

MAYBE static void expect_text(const char *key, const char *got)
{
    const char *want = expected(key);
    if (want != NULL)
        same_text(key, got, want);
}

/* Reads a whole small file; the text stays until the next call. */
MAYBE static size_t slurp(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail("open %s: %s", path, strerror(errno));
    size_t used = 0;
    ssize_t n;
    while (used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    close(fd);
    text[used] = 0;
    return used;
}

/* The number after `key:` in /proc/self/status. */
MAYBE static unsigned long long status_field(const char *key, int base)
{
    static char text[8192];
    char label[40];
    slurp("/proc/self/status", text, sizeof text);
    snprintf(label, sizeof label, "\n%s:", key);
    char *at = strstr(text, label);
    if (at == NULL)
        fail("/proc/self/status has no %s", key);
    return strtoull(at + strlen(label), NULL, base);
}

/* The numbered field of /proc/self/stat, counted as proc(5) does. Fields from 3 on. */
MAYBE static unsigned long stat_field(int number)
{
    char text[1024];
    slurp("/proc/self/stat", text, sizeof text);
    char *at = strrchr(text, ')') + 1;
    for (int field = 3; field < number; field++)
        at = strchr(at + 1, ' ');
    return strtoul(at, NULL, 10);
}

#ifndef VICTIM_END
static void end(void) { exit(0); }
#endif

static void run(void)
{
    check();
    dirty();
    end();
    fail("the end was not an end");
}

int main(int argc, char **argv, char **envp)
{
    victim_errno = errno;
    victim_argc = argc;
    victim_argv = argv;
    victim_envp = envp;
    const char *pretend = getenv("VICTIM_PRETEND_STALE");
    if (pretend == NULL)
        run();
    if (strcmp(pretend, "space") != 0) {
        check();
        dirty();
    } else {
        pid_t pid = vfork();
        if (pid < 0)
            _exit(2);
        if (pid == 0)
            run();
        int status;
        while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
            ;
    }
    check();
    _exit(0);
}

#endif
