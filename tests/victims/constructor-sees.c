/* What constructors learned of the world before main: pid, arguments, environment, directory. A
 * snapshot at main would hand an earlier process's to every later one. */
#include "maps.h"
#include <sys/stat.h>

static pid_t pid, parent;
static char cwd[4096], token[64], first[64];
static mode_t mask;

__attribute__((constructor)) static void construct(int argc, char **argv)
{
    pid = getpid();
    parent = getppid();
    if (getcwd(cwd, sizeof cwd) == NULL)
        fail("getcwd: %s", strerror(errno));
    snprintf(token, sizeof token, "%s", getenv("VICTIM_TOKEN") ? getenv("VICTIM_TOKEN") : "");
    snprintf(first, sizeof first, "%s", argc > 1 ? argv[1] : "");
    umask(mask = umask(0));
}

static void check(void)
{
    char here[4096];
    same("the pid that a constructor saw", pid, getpid());
    same("the parent that a constructor saw", parent, getppid());
    if (getcwd(here, sizeof here) == NULL)
        fail("getcwd: %s", strerror(errno));
    same_text("the directory that a constructor saw", cwd, here);
    same_text("the variable that a constructor saw", token,
              getenv("VICTIM_TOKEN") ? getenv("VICTIM_TOKEN") : "");
    same_text("the argument that a constructor saw", first, victim_argc > 1 ? victim_argv[1] : "");
    mode_t now = umask(0);
    umask(now);
    same("the umask that a constructor saw", mask, now);
}

static void dirty(void)
{
    pid = parent = 1;
    strcpy(first, "stale");
}
