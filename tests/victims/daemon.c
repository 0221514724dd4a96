/* A daemon that outlives its parent: it leaves the session, waits, and writes the file daemon-<pid>,
 * with the pid of the first process, into the directory of its start. */
#define VICTIM_END
#include "maps.h"

static volatile uint64_t data[PAGE] = {1, 2, 3};
static volatile int state;

static void check(void)
{
    same("the state", state, 0);
    same("data", (long long)(data[0] + data[1] + data[2]), 6);
    same("data further on", (long long)data[PAGE - 1], 0);
}

static void dirty(void)
{
    state = 1;
    fill_words(data, sizeof data, 0xdead);
}

static void daemon_life(pid_t starter)
{
    setsid();
    if (fork() != 0)
        _exit(0);
    state = 2;
    usleep(50000);
    char name[40], temporary[48], text[40];
    snprintf(name, sizeof name, "daemon-%d", starter);
    snprintf(temporary, sizeof temporary, "%s.part", name);
    int size = snprintf(text, sizeof text, "state %d data %lx\n", state, data[PAGE - 1]);
    int fd = MUST(open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    MUST(write(fd, text, (size_t)size));
    MUST(rename(temporary, name));
    _exit(state == 2 && data[0] == 0xdead ? 0 : 1);
}

static void end(void)
{
    pid_t starter = getpid();
    if (MUST(fork()) == 0)
        daemon_life(starter);
    exit(0);
}
