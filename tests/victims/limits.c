/* All sixteen resource limits, by getrlimit and in /proc/self/limits; the run lowers them. */
#include "maps.h"
#include <ctype.h>
#include <sys/resource.h>

static const struct {
    const char *key, *line;
} limits[RLIM_NLIMITS] = {
    [RLIMIT_CPU] = {"CPU", "Max cpu time"},
    [RLIMIT_FSIZE] = {"FSIZE", "Max file size"},
    [RLIMIT_DATA] = {"DATA", "Max data size"},
    [RLIMIT_STACK] = {"STACK", "Max stack size"},
    [RLIMIT_CORE] = {"CORE", "Max core file size"},
    [RLIMIT_RSS] = {"RSS", "Max resident set"},
    [RLIMIT_NPROC] = {"NPROC", "Max processes"},
    [RLIMIT_NOFILE] = {"NOFILE", "Max open files"},
    [RLIMIT_MEMLOCK] = {"MEMLOCK", "Max locked memory"},
    [RLIMIT_AS] = {"AS", "Max address space"},
    [RLIMIT_LOCKS] = {"LOCKS", "Max file locks"},
    [RLIMIT_SIGPENDING] = {"SIGPENDING", "Max pending signals"},
    [RLIMIT_MSGQUEUE] = {"MSGQUEUE", "Max msgqueue size"},
    [RLIMIT_NICE] = {"NICELIMIT", "Max nice priority"},
    [RLIMIT_RTPRIO] = {"RTPRIO", "Max realtime priority"},
    [RLIMIT_RTTIME] = {"RTTIME", "Max realtime timeout"},
};

static void put(char *text, rlim_t value)
{
    if (value == RLIM_INFINITY)
        strcpy(text, "unlimited");
    else
        sprintf(text, "%llu", (unsigned long long)value);
}

/* EXPECT_NOFILE=1024:4096 and so on, soft and hard; `unlimited` for no limit. */
static void check(void)
{
    static char text[8192];
    slurp("/proc/self/limits", text, sizeof text);
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        MUST(getrlimit(i, &limit));
        char soft[24], hard[24], both[50], soft_shown[24], hard_shown[24];
        put(soft, limit.rlim_cur);
        put(hard, limit.rlim_max);
        snprintf(both, sizeof both, "%s:%s", soft, hard);
        expect_text(limits[i].key, both);
        char *line = strstr(text, limits[i].line);
        if (line == NULL ||
            sscanf(line + strlen(limits[i].line), "%23s %23s", soft_shown, hard_shown) != 2)
            fail("/proc/self/limits has no '%s'", limits[i].line);
        same_text(limits[i].line, soft_shown, soft);
        same_text(limits[i].line, hard_shown, hard);
        if (limit.rlim_cur == 77777)
            fail("the limit %s is an earlier run's", limits[i].key);
    }
}

static void dirty(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        MUST(getrlimit(i, &limit));
        if (i == RLIMIT_AS || i == RLIMIT_STACK || i == RLIMIT_DATA)
            limit.rlim_cur = (rlim_t)77777 << 20; /* enough to go on */
        else
            limit.rlim_cur = 77777;
        if (limit.rlim_cur > limit.rlim_max)
            limit.rlim_cur = limit.rlim_max / 2;
        setrlimit(i, &limit);
    }
}
