/* Where and who the process is: directory, umask, ids, parent, group, session, names of itself. */
#include "maps.h"
#include <grp.h>
#include <libgen.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static void expect_link(const char *key, const char *path)
{
    char target[4096];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        fail("readlink %s: %s", path, strerror(errno));
    target[n] = 0;
    expect_text(key, target);
}

static void check_names(void)
{
    char comm[32], name[17] = "";
    slurp("/proc/self/comm", comm, sizeof comm);
    comm[strcspn(comm, "\n")] = 0;
    prctl(PR_GET_NAME, name);
    same_text("/proc/self/comm", comm, name);
    char own[16];
    snprintf(own, sizeof own, "%s", basename(strdup((char *)getauxval(AT_EXECFN))));
    same_text("/proc/self/comm", comm, expected("COMM") ? expected("COMM") : own);
    char stat[64], wanted[64];
    slurp("/proc/self/stat", stat, sizeof stat);
    snprintf(wanted, sizeof wanted, "%d (%s)", getpid(), comm);
    if (strncmp(stat, wanted, strlen(wanted)) != 0)
        fail("/proc/self/stat starts with '%.40s', not '%s'", stat, wanted);
}

static void check_groups(void)
{
    gid_t groups[256];
    char text[4096] = "";
    int count = MUST(getgroups(256, groups));
    for (int i = 0, at = 0; i < count && at < 4000; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%u", i ? "," : "", groups[i]);
    expect_text("GROUPS", text);
}

static void check(void)
{
    char cwd[4096];
    if (getcwd(cwd, sizeof cwd) == NULL)
        fail("getcwd: %s", strerror(errno));
    expect_text("CWD", cwd);
    expect_link("CWD", "/proc/self/cwd");
    expect_link("ROOT", "/proc/self/root");
    expect_link("EXE", "/proc/self/exe");
    mode_t mask = umask(0);
    umask(mask);
    expect_number("UMASK", 8, mask);
    same("Umask in /proc/self/status", (long long)status_field("Umask", 8), mask);
    expect_number("PPID", 10, getppid());
    expect_number("PGID", 10, getpgid(0));
    expect_number("SID", 10, getsid(0));
    expect_number("UID", 10, getuid());
    expect_number("EUID", 10, geteuid());
    expect_number("GID", 10, getgid());
    expect_number("EGID", 10, getegid());
    same("Pid in /proc/self/status", (long long)status_field("Pid", 10), getpid());
    same("Threads in /proc/self/status", (long long)status_field("Threads", 10), 1);
    same("TracerPid in /proc/self/status", (long long)status_field("TracerPid", 10), 0);
    check_names();
    check_groups();
}

static void dirty(void)
{
    MUST(mkdir("left-behind", 0700) == 0 || errno == EEXIST ? 0 : -1);
    MUST(chdir("left-behind"));
    rmdir("../left-behind"); /* the working directory is gone, too */
    MUST(chdir("/"));
    umask(0777);
    prctl(PR_SET_NAME, "stale-name");
    if (setsid() < 0)
        setpgid(0, 0);
    if (getuid() == 0) {
        gid_t groups[] = {4, 5, 6};
        MUST(setgroups(3, groups));
        MUST(setresgid(65534, 65534, 65534));
        MUST(setresuid(65534, 65534, 65534));
    }
}
