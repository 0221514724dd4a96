/* Filters its own system calls: all but those that it needs fail. */
#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>

static void strike(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {WORDS(program), program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, 1, 0, &filter) != 0)
        LACK("seccomp");
    syscall(SYS_exit_group, 0);
}
