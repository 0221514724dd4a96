// Allows itself the system calls of a program that creates children, and is killed by any other.
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(clone), ALLOW(wait4), ALLOW(write), ALLOW(exit_group), ALLOW(getpid), ALLOW(rt_sigprocmask),
        ALLOW(set_robust_list), ALLOW(gettid), ALLOW(newfstatat), ALLOW(fstat), ALLOW(clock_gettime), ALLOW(ioctl),
        ALLOW(brk), ALLOW(mmap), ALLOW(munmap), ALLOW(set_tid_address), ALLOW(rseq), ALLOW(getrandom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        return 2;
    }
    for (int round = 0; round < 2; round++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            _exit(7);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) {
            return 3;
        }
    }
    puts("done");
    return 0;
}
