/* The arguments: what the caller gave, in the kernel's view and in the libc's; then, as servers do,
 * the run writes a title over them and tells the kernel of other bounds. */
#include "maps.h"
#include <sys/auxv.h>
#include <sys/prctl.h>

static char title[PAGE] = "stale title";

static void check_kernel(void)
{
    static char text[1 << 18];
    size_t used = slurp("/proc/self/cmdline", text, sizeof text), at = 0;
    for (int i = 0; i < victim_argc; i++, at += strlen(text + at) + 1)
        if (at >= used || strcmp(text + at, victim_argv[i]) != 0)
            fail("/proc/self/cmdline and argument %d differ", i);
    same("length of /proc/self/cmdline", (long long)used, (long long)at);
    if ((uintptr_t)victim_argv[0] != stat_field(48))
        fail("the kernel has the arguments at %#lx, the program at %p", stat_field(48),
             (void *)victim_argv[0]);
}

static void check(void)
{
    expect_number("ARGC", 10, victim_argc);
    for (int i = 0; i < victim_argc; i++) {
        char key[32];
        snprintf(key, sizeof key, "ARGV_%d", i);
        expect_text(key, victim_argv[i]);
        if (i > 0 && victim_argv[i] != victim_argv[i - 1] + strlen(victim_argv[i - 1]) + 1)
            fail("argument %d does not follow argument %d in memory", i, i - 1);
    }
    if (victim_argv[victim_argc] != NULL)
        fail("the arguments do not end in NULL");
    check_kernel();
    same_text("program_invocation_name", program_invocation_name, victim_argv[0]);
    const char *slash = strrchr(victim_argv[0], '/');
    same_text("program_invocation_short_name", program_invocation_short_name,
              slash ? slash + 1 : victim_argv[0]);
    expect_text("EXECFN", (const char *)getauxval(AT_EXECFN));
    if (getenv("VICTIM_LEFT") != NULL)
        fail("VICTIM_LEFT is set");
}

static void move_bounds(void)
{
    struct prctl_mm_map bounds = {
        .start_code = stat_field(26), .end_code = stat_field(27), .start_data = stat_field(45),
        .end_data = stat_field(46), .start_brk = stat_field(47), .brk = (uintptr_t)sbrk(0),
        .start_stack = stat_field(28), .arg_start = (uintptr_t)title,
        .arg_end = (uintptr_t)title + 12, .env_start = (uintptr_t)title + 12,
        .env_end = (uintptr_t)title + 13, .exe_fd = (uint32_t)-1};
    prctl(PR_SET_MM, PR_SET_MM_MAP, &bounds, sizeof bounds, 0);
}

static void dirty(void)
{
    char *end_of_all = victim_argv[0];
    for (char **at = victim_argv; at < victim_envp + 1; at++)
        if (*at != NULL)
            end_of_all = *at + strlen(*at);
    memset(victim_argv[0], 'X', (size_t)(end_of_all - victim_argv[0]));
    program_invocation_name = title;
    program_invocation_short_name = title;
    victim_argv[0] = victim_argv[victim_argc] = title + 64;
    move_bounds();
}
