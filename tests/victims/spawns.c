/* Programs that a run starts: by posix_spawn, system, popen, fork and vfork, and what they print. */
#include "maps.h"
#include <signal.h>
#include <spawn.h>

static volatile int started;

static void check(void)
{
    same("programs started", started, 0);
    same("wait without children", waitpid(-1, NULL, WNOHANG | __WALL), -1);
}

static void expect_exit(pid_t pid, int wanted, const char *how)
{
    int status;
    same(how, waitpid(pid, &status, 0), pid);
    same(how, WIFEXITED(status) ? WEXITSTATUS(status) : -1, wanted);
    started++;
}

static void dirty(void)
{
    char *const argv[] = {(char *)"sh", (char *)"-c", (char *)"exit 5", NULL};
    pid_t pid;
    same("posix_spawn", posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    expect_exit(pid, 5, "posix_spawn's child");
    pid = vfork();
    if (pid == 0) {
        execve("/bin/sh", argv, environ);
        _exit(99);
    }
    expect_exit(pid, 5, "vfork's child");
    pid = MUST(fork());
    if (pid == 0) {
        started = 50;
        execve("/bin/sh", argv, environ);
        _exit(99);
    }
    expect_exit(pid, 5, "fork's child");
    same("programs started", started, 3);
    same("system", WEXITSTATUS(system("exit 6")), 6);
    char line[64], wanted[64];
    FILE *pipe_from = popen("echo $PPID", "r");
    if (pipe_from == NULL || fgets(line, sizeof line, pipe_from) == NULL)
        fail("popen gives no line");
    snprintf(wanted, sizeof wanted, "%d\n", getpid());
    same_text("the parent that a program sees", line, wanted);
    same("pclose", pclose(pipe_from), 0);
    setenv("VICTIM_TO_CHILD", "seen", 1);
    same("system with a variable", WEXITSTATUS(system("test \"$VICTIM_TO_CHILD\" = seen")), 0);
    same("posix_spawn of nothing", posix_spawn(&pid, "/no/such", NULL, NULL, argv, environ), ENOENT);
}
