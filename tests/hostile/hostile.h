/* The frame of every attack: a program that can be run in two modes.
 *
 *   attack WAY   does to its address space, its keeper or its task what the file is about: strike(). WAY says who outlives
 *                the run: nobody (alone), a child (fork), a grandchild in a session of its own (session), a program that a
 *                child executes (exec), or a child that shares the memory (vfork). Where LINGERS is defined, what outlives
 *                the run calls linger() every two milliseconds, until descriptor 9 hangs up.
 *   probe        says on standard output all that a program can find out about its memory and its task. Two probes
 *                of one image print the same, whatever ran between them.
 *
 * An attack exits with status 0, unless it defines ENDS and ends by itself in strike(); 77 says that the machine lacks what
 * it is about. It writes the line "begun" first: who counts the lines knows how often it was started.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define MAYBE __attribute__((unused))
#define LACKING 77
#define ALIVE 8 /* what outlives the run holds it open */
#define UNTIL 9 /* hangs up when what outlives the run is to end */
#define KEPT 7  /* a pipe that is read after the probes: only bytes 'k' may come out of it */

#define SPACE_PAGES 512
#define WORDS(array) (sizeof(array) / sizeof *(array))

/* What attacks write to, each on pages of its own. */
static const uint64_t constants[2 * PAGE / 8] __attribute__((aligned(4096))) = {0x11, 0x22, 0x33};
static volatile uint64_t data[4 * PAGE / 8] __attribute__((aligned(4096))) = {0xd1, 0xd2, 0xd3};
static volatile uint64_t zeroes[SPACE_PAGES * PAGE / 8] __attribute__((aligned(4096)));
static __thread volatile uint64_t of_thread = 0x77;
static __thread volatile uint64_t of_thread_zero;

static void strike(void);
#ifdef LINGERS
static void linger(void);
#else
MAYBE static void linger(void) {}
#endif
static const char *way = "alone";

MAYBE static void write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n <= 0)
            _exit(2);
        text += n;
        length -= (size_t)n;
    }
}

MAYBE __attribute__((format(printf, 2, 3), noreturn)) static void end_with(int status, const char *format, ...)
{
    char line[400];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line - 1, format, list);
    n = n < (int)sizeof line - 1 ? n : (int)sizeof line - 2;
    line[n++] = '\n';
    write_all(2, line, (size_t)n);
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

#define LACK(what) end_with(LACKING, "%s: %s", what, strerror(errno))
#define MUST(call)                                                                                                     \
    __extension__({                                                                                                    \
        __auto_type must_ = (call);                                                                                    \
        if ((intptr_t)must_ == -1)                                                                                     \
            end_with(1, "%s: %s", #call, strerror(errno));                                                             \
        must_;                                                                                                         \
    })

MAYBE static void pause_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

MAYBE static size_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n = 0;
    while (fd >= 0 && used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    if (fd >= 0)
        close(fd);
    text[used] = 0;
    return used;
}

/* ---- what attacks look for */

struct area {
    uintptr_t low, high;
    char perms[5];
};

/* Finds the mapping of this number whose line holds a text. */
MAYBE static int find_area(const char *part, int number, struct area *area)
{
    static char text[1 << 16];
    read_text("/proc/self/maps", text, sizeof text);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, part) != NULL && number-- == 0)
            return sscanf(line, "%lx-%lx %4s", &area->low, &area->high, area->perms) == 3;
    return 0;
}

/* The control area of the body; NULL outside of one. */
MAYBE static volatile uint32_t *control_area(void)
{
    struct area area;
    return find_area("memfd:regrow-control", 0, &area) ? (volatile uint32_t *)area.low : NULL;
}

/* A word of the control area, by the name that the test has told. */
MAYBE static volatile uint32_t *control_word(const char *name)
{
    const char *list = getenv("HOSTILE_OFFSETS");
    volatile uint32_t *area = control_area();
    char label[40];
    snprintf(label, sizeof label, ",%s=", name);
    const char *at = list == NULL ? NULL : strstr(list, label);
    if (area == NULL || at == NULL)
        return NULL;
    return area + strtoul(at + strlen(label), NULL, 10) / 4;
}

MAYBE static void forge(const char *name, uint32_t value)
{
    volatile uint32_t *word = control_word(name);
    if (word != NULL)
        *word = value;
}

/* Another child of the caller. */
MAYBE static pid_t sibling(void)
{
    const char *text = getenv("HOSTILE_SIBLING");
    return text == NULL ? 0 : (pid_t)strtol(text, NULL, 10);
}

/* The keeper: another process that uses this memory. 0 outside of a body. */
MAYBE static pid_t keeper(void)
{
    enum { KCMP_VM = 1 };
    pid_t own = getpid();
    pid_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; found == 0 && all != NULL && (entry = readdir(all)) != NULL;) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 1 && pid != own && syscall(SYS_kcmp, own, pid, KCMP_VM, 0, 0) == 0)
            found = pid;
    }
    if (all != NULL)
        closedir(all);
    return found;
}

MAYBE static void fill(volatile uint64_t *words, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = value;
}

/* Writes to memory that may not be written to, as a debugger does. */
MAYBE static int write_by_file(int memory, volatile void *to, uint64_t value)
{
    return pwrite(memory, &value, sizeof value, (off_t)(uintptr_t)to) == sizeof value;
}

struct page_scan {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, all_of, any_of, told;
};

/* Has the kernel forget that pages were written, for whoever tracks it. */
MAYBE static void forget_writes(volatile const void *start, size_t bytes)
{
    enum { WP_MATCHING = 1, CHECK_WPASYNC = 2, IS_WRITTEN = 2 };
    static uint64_t regions[3 * 512];
    int fd = open("/proc/self/pagemap", O_RDONLY);
    struct page_scan scan = {
        .size = sizeof scan,
        .flags = WP_MATCHING,
        .start = (uintptr_t)start,
        .end = (uintptr_t)start + bytes,
        .vec = (uintptr_t)regions,
        .vec_len = WORDS(regions) / 3,
        .all_of = IS_WRITTEN,
        .told = IS_WRITTEN,
    };
    ioctl(fd, 0xc0606610, &scan);
    close(fd);
}

MAYBE static void *page_of(volatile const void *address) { return (void *)((uintptr_t)address & ~(PAGE - 1)); }

/* ---- what outlives the run */

static void outlive(void)
{
    struct pollfd until = {UNTIL, POLLIN, 0};
    alarm(60);
    for (;;) {
        linger();
        if (poll(&until, 1, 2) == 1)
            syscall(SYS_exit_group, 0);
    }
}

static void leave_behind(char **argv)
{
    int ready[2];
    if (strcmp(way, "alone") == 0)
        return;
    MUST(pipe2(ready, O_CLOEXEC));
    pid_t run = getpid();
    if (strcmp(way, "vfork") == 0) {
        if (vfork() == 0) {
            kill(run, SIGKILL);
            outlive();
        }
        end_with(1, "vfork has returned");
    }
    if (strcmp(way, "exec") == 0) {
        if (vfork() == 0) {
            execl("/proc/self/exe", argv[0], "outlive", NULL);
            _exit(2);
        }
        return;
    }
    pid_t pid = MUST(fork());
    if (pid == 0) {
        if (strcmp(way, "session") == 0) {
            setsid();
            if (fork() != 0)
                _exit(0);
        }
        linger();
        write_all(ready[1], "r", 1);
        close(ready[1]);
        outlive();
    }
    close(ready[1]);
    char byte;
    MUST(read(ready[0], &byte, 1));
    if (strcmp(way, "session") == 0)
        waitpid(pid, NULL, 0);
}

#include "probe.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        probe();
    if (argc > 1 && strcmp(argv[1], "outlive") == 0)
        outlive();
    if (argc != 3 || strcmp(argv[1], "attack") != 0)
        end_with(2, "usage: %s probe | attack alone|fork|session|exec|vfork", argv[0]);
    way = argv[2];
    write_all(1, "begun\n", 6);
    strike();
    leave_behind(argv);
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

#endif
