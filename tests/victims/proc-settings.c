/* Settings written through /proc/self that the kernel keeps with the memory, or copies to all who
 * share it: the core dump filter and the out-of-memory score. */
#include "maps.h"

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, text, strlen(text)) < 0)
            fail("write %s to %s: %s", text, path, strerror(errno));
        close(fd);
    }
}

static void check(void)
{
    char text[64];
    slurp("/proc/self/coredump_filter", text, sizeof text);
    const char *filter = expected("COREDUMP_FILTER");
    same("the core dump filter", (long long)strtoull(text, NULL, 16),
         filter ? (long long)strtoull(filter, NULL, 16) : 0x33);
    slurp("/proc/self/oom_score_adj", text, sizeof text);
    const char *score = expected("OOM_SCORE_ADJ");
    same("the out-of-memory score", atoi(text), score ? atoi(score) : 0);
}

static void dirty(void)
{
    put("/proc/self/coredump_filter", "0x7f");
    put("/proc/self/oom_score_adj", "333");
    put("/proc/self/comm", "stale-name");
}
