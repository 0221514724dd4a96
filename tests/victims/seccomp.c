/* A system call filter that the run puts upon itself: without it, all calls work again. */
#include "maps.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

static void check(void)
{
    const char *mode = expected("SECCOMP");
    same("Seccomp", (long long)status_field("Seccomp", 10), mode ? atoi(mode) : 0);
    same("NoNewPrivs", (long long)status_field("NoNewPrivs", 10),
         expected("NO_NEW_PRIVS") ? atoi(expected("NO_NEW_PRIVS")) : 0);
    errno = 0;
    if (syscall(SYS_sched_yield) != 0)
        fail("sched_yield: %s", strerror(errno));
    if (syscall(SYS_getrandom, &(char){0}, 1, 0) != 1)
        fail("getrandom: %s", strerror(errno));
}

static void dirty(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
    same("a refused call", syscall(SYS_sched_yield), -1);
}
