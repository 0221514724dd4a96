/* A run that takes the C library's own memory away before it ends: its writable data is unmapped,
 * its constants are overwritten and the vDSO is moved. Only raw system calls work after that. */
#define VICTIM_END
#include "maps.h"
#include <sys/auxv.h>
#include <time.h>

static uintptr_t data_low, data_high, other_low, other_high;

static long raw(long number, long a, long b, long c)
{
    long result;
    register long four __asm__("r10") = 0x32, five __asm__("r8") = -1, six __asm__("r9") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(four), "r"(five), "r"(six)
                     : "rcx", "r11", "memory");
    return result;
}

__attribute__((noreturn)) static void raw_fail(const char *line, size_t length)
{
    raw(SYS_write, 2, (long)line, (long)length);
    raw(SYS_exit_group, 1, 0, 0);
    __builtin_unreachable();
}
#define RAW_FAIL(text) raw_fail("victim " VICTIM ": " text "\n", sizeof "victim " VICTIM ": " text)

static void check(void)
{
    if (data_low != 0 && raw(SYS_msync, (long)data_low, (long)(data_high - data_low), 0) == -ENOMEM)
        RAW_FAIL("the libc's data is not mapped");
    if (data_low != 0)
        RAW_FAIL("an earlier run has noted where the libc's data is");
    struct timespec now;
    MUST(clock_gettime(CLOCK_MONOTONIC, &now));
    struct map map;
    if (!map_at((void *)getauxval(AT_SYSINFO_EHDR), &map) || strcmp(map.path, "[vdso]") != 0)
        fail("the vDSO is not where the auxiliary vector says");
    expect_perms((void *)(uintptr_t)&environ, "rw-p", "environ");
    char text[64];
    snprintf(text, sizeof text, "%d %s", 5, strerror(ENOENT));
    same_text("a formatted text", text, "5 No such file or directory");
}

/* The libc's data is the writable mapping that holds `stdout`'s object. */
static void dirty(void)
{
    struct map map;
    if (!map_at(stdout, &map))
        fail("stdout's object is not mapped");
    other_low = map.low;
    other_high = map.high;
    if (victim_argc > 1 && strcmp(victim_argv[1], "vdso") == 0) {
        map_named("[vdso]", &map);
        raw(SYS_munmap, (long)map.low, (long)(map.high - map.low), 0);
    }
    data_low = other_low;
    data_high = other_high;
    raw(SYS_munmap, (long)data_low, (long)(data_high - data_low), 0);
}

static void end(void)
{
    raw(SYS_exit_group, 0, 0, 0);
}
