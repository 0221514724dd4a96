/* Namespaces, root directory and capabilities that a privileged run gives up. */
#include "maps.h"
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>

static const char *const names[] = {"mnt", "uts", "ipc", "net", "cgroup", "pid_for_children",
                                    "time_for_children"};

/* The caller is the parent: what it has, the process has. */
static void check(void)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char own[64], parents[64], own_target[64] = "", parents_target[64] = "";
        snprintf(own, sizeof own, "/proc/self/ns/%s", names[i]);
        snprintf(parents, sizeof parents, "/proc/%d/ns/%s", getppid(), names[i]);
        if (readlink(own, own_target, sizeof own_target - 1) > 0 &&
            readlink(parents, parents_target, sizeof parents_target - 1) > 0)
            same_text(names[i], own_target, parents_target);
    }
    char root[256] = "";
    MUST(readlink("/proc/self/root", root, sizeof root - 1));
    same_text("the root directory", root, expected("ROOT") ? expected("ROOT") : "/");
    struct utsname host;
    MUST(uname(&host));
    if (strcmp(host.nodename, "stale-host") == 0)
        fail("the host's name is an earlier run's");
    char path[64];
    struct stat parents_root, own_root;
    snprintf(path, sizeof path, "/proc/%d/root/.", getppid());
    MUST(stat("/", &own_root));
    if (stat(path, &parents_root) == 0)
        same("the root's device", (long long)own_root.st_dev, (long long)parents_root.st_dev);
}

static void dirty(void)
{
    MUST(unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID));
    unshare(CLONE_NEWNET);
    unshare(CLONE_NEWCGROUP);
    MUST(sethostname("stale-host", 10));
    MUST(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL));
    mkdir("left-root", 0755);
    MUST(mount("/", "left-root", NULL, MS_BIND | MS_REC, NULL));
    MUST(chroot("left-root"));
    MUST(chdir("/"));
}
