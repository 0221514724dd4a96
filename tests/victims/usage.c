/* Resource usage starts anew: a run that takes 200 MiB leaves no trace in the next one's figures. */
#include "maps.h"
#include <sys/resource.h>
#include <sys/times.h>

#define LARGE ((size_t)200 << 20)

static void check(void)
{
    struct rusage own, of_children;
    MUST(getrusage(RUSAGE_SELF, &own));
    MUST(getrusage(RUSAGE_CHILDREN, &of_children));
    const char *limit = expected("MAXRSS_KIB"); /* what the caller itself takes counts, too */
    long most = limit ? atol(limit) : 150 << 10;
    if (own.ru_maxrss > most)
        fail("ru_maxrss is %ld KiB at the start", own.ru_maxrss);
    if (status_field("VmHWM", 10) > 64 << 10)
        fail("VmHWM is %llu kB at the start", status_field("VmHWM", 10));
    if (own.ru_minflt > 5000)
        fail("%ld page faults at the start", own.ru_minflt);
    if (own.ru_utime.tv_sec != 0 || own.ru_stime.tv_sec != 0)
        fail("%ld.%06ld s of processor time at the start", own.ru_utime.tv_sec,
             own.ru_utime.tv_usec);
    same("swapped pages", own.ru_nswap, 0);
    same("page faults of children", of_children.ru_minflt, 0);
    char text[1024];
    if (access("/proc/self/io", R_OK) == 0) {
        slurp("/proc/self/io", text, sizeof text);
        long written = atol(strstr(text, "wchar:") + 6);
        if (written > 1 << 20)
            fail("%ld bytes written at the start", written);
    }
}

static void dirty(void)
{
    char *at = MUST(mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(at + (32 << 20), LARGE - (32 << 20), MADV_HUGEPAGE); /* makes most of it quick */
    for (size_t i = 0; i < LARGE; i += PAGE)
        at[i] = 1;
    int null = MUST(open("/dev/null", O_WRONLY));
    MUST(write(null, at, 8 << 20));
    MUST(munmap(at, LARGE));
}
