/* The environment: what the caller gave, at the places where a program looks for it. */
#include "maps.h"

static volatile char left[] = "VICTIM_LEFT=stale";

/* Compares a file of strings that end in NUL with a list of pointers. */
static void compare(const char *path, char **list)
{
    static char text[1 << 18];
    size_t used = slurp(path, text, sizeof text), at = 0;
    for (; *list != NULL && at < used; list++, at += strlen(text + at) + 1)
        if (strcmp(text + at, *list) != 0)
            fail("%s has '%.100s' where the program sees '%.100s'", path, text + at, *list);
    if (*list != NULL || at != used)
        fail("%s and what the program sees differ in length", path);
}

static void check(void)
{
    if (environ != victim_envp)
        fail("environ is not the third argument of main");
    if (victim_envp != victim_argv + victim_argc + 1)
        fail("the environment does not follow the arguments");
    int count = 0;
    for (char **entry = environ; *entry != NULL; entry++, count++) {
        char *equals = strchr(*entry, '=');
        if (equals == NULL)
            fail("the entry '%.50s' has no '='", *entry);
        if (entry[1] != NULL && entry[1] != *entry + strlen(*entry) + 1)
            fail("the entry after '%.50s' does not follow it in memory", *entry);
    }
    expect_number("ENVC", 10, count);
    compare("/proc/self/environ", environ);
    if (getenv("VICTIM_LEFT") != NULL)
        fail("VICTIM_LEFT is set");
    if ((uintptr_t)environ[0] != stat_field(50))
        fail("the kernel has the environment at %#lx, the program at %p", stat_field(50),
             (void *)environ[0]);
    uintptr_t end_of_last = (uintptr_t)environ[count - 1] + strlen(environ[count - 1]) + 1;
    if (end_of_last != stat_field(51))
        fail("the kernel's end of the environment is %#lx, the program's %#lx", stat_field(51),
             end_of_last);
}

static void dirty(void)
{
    setenv("VICTIM_LEFT", "stale", 1);
    setenv("PATH", "/stale", 1);
    putenv((char *)left);
    unsetenv("EXPECT_ENVC");
    memset(victim_envp[0], 'X', strlen(victim_envp[0]));
    victim_envp[0][1] = '=';
    clearenv();
    setenv("VICTIM_LEFT", "stale", 1);
}
