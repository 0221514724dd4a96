/* Exactly the descriptors that the caller gave, none of them close-on-exec, at their offsets. The
 * run leaves open one of every kind that it can make. */
#include "maps.h"
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

static void check_one(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags & FD_CLOEXEC)
        fail("descriptor %d is close-on-exec", fd);
    char key[32];
    snprintf(key, sizeof key, "OFFSET_%d", fd);
    if (expected(key) != NULL)
        expect_number(key, 10, lseek(fd, 0, SEEK_CUR));
    char path[32], target[4096];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = 0;
    snprintf(key, sizeof key, "FILE_%d", fd);
    expect_text(key, target);
}

/* EXPECT_FDS=0,1,2,7 in rising order. */
static void check(void)
{
    char text[4096] = "";
    int at = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        fail("opendir /proc/self/fd: %s", strerror(errno));
    unsigned char open_now[4096] = {0};
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
            open_now[atoi(entry->d_name) & 4095] = 1;
    closedir(dir);
    for (int fd = 0; fd < 4096 && at < 4000; fd++)
        if (open_now[fd]) {
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%d", at ? "," : "", fd);
            check_one(fd);
        }
    expect_text("FDS", text);
    int lowest = 0;
    while (open_now[lowest])
        lowest++;
    int copy = MUST(dup(2));
    same("the next descriptor", copy, lowest);
    close(copy);
}

static void dirty(void)
{
    int pair[2];
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    MUST(pipe(pair));
    MUST(write(pair[1], "stale", 5));
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    MUST(eventfd(5, 0));
    int epoll = MUST(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN};
    MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event));
    inotify_add_watch(MUST(inotify_init()), "/", IN_ALL_EVENTS);
    MUST(signalfd(-1, &mask, 0));
    MUST(timerfd_create(CLOCK_MONOTONIC, 0));
    MUST(memfd_create("left-behind", 0));
    MUST(socket(AF_INET, SOCK_DGRAM, 0));
    int file = MUST(open("/proc/self/exe", O_RDONLY));
    MUST(lseek(file, 77, SEEK_SET));
    syscall(SYS_pidfd_open, getpid(), 0);
    for (int i = 0; i < 60; i++)
        MUST(dup(file));
    struct rlimit limit;
    MUST(getrlimit(RLIMIT_NOFILE, &limit));
    dup2(file, limit.rlim_cur > 4000 ? 4000 : (int)limit.rlim_cur - 1);
    lseek(0, 11, SEEK_CUR);
    fcntl(2, F_SETFD, FD_CLOEXEC);
    close(1);
}
