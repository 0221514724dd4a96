/* The prototype of recycling: a process stops at main, and each order is a run in a task that shares its memory.
 *
 *   keeper   at main ─ snapshot ─ clone ─ sleeps ──────────────── put back ─ clone ─ …
 *   task                            └─ armed: sleeps ─ go: main … exit
 *   caller                                    wakes ─┘       └─ waitpid, then tells the keeper
 *
 * The task is cloned ahead with CLONE_VM, so it has the memory as it was at main, and with CLONE_PARENT, so the caller waits
 * for it as for a child of its own.
 *
 * It is loaded by LD_PRELOAD, and leaves out whatever a measure of the mechanism does without:
 * - It knows main alone, of programs that the dynamic loader starts, and finds it through __libc_start_main.
 * - A run has the arguments, the environment, the descriptors, the directory, the limits and the ids of the first start.
 * - It puts back pages of private writable mappings, and maps what is missing. Protections, advice, shared mappings, the
 *   registers of vectors and whatever a run does to the kernel's idea of the process stay as a run leaves them.
 * - It compares every kept page at each reset, and has room for 65,536 of them.
 * - Nothing checks a run: not what it does to the keeper's memory, and not whether a process that it started still uses it.
 * - Addresses and random numbers of the start are the same in all runs.
 * - A run that outlives the caller is killed with it. */
#define _GNU_SOURCE
#include "agent.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES 65536
/* What the C library registers for the main thread, whatever part of it the kernel uses. */
#define RSEQ_BYTES 32

typedef int main_function(int, char **, char **);

/* The keeper's own memory: shared, so that no snapshot has it. */
struct keeper {
    _Alignas(16) char stack[STACK_BYTES];
    _Alignas(16) char armed_stack[STACK_BYTES];
    void *main_stack; /* where the registers of main are saved */
    int *tid;         /* where the C library has the number of the thread */
    void *robust_list;
    size_t robust_list_bytes;
    void *rseq; /* null where the C library registers none */
    int no_tid;
};

static struct keeper *keeper;
static struct orders *orders;
static main_function *program_main;

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    CALL(SYS_futex, word, FUTEX_WAIT, value, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    CALL(SYS_futex, word, FUTEX_WAKE, 1, 0);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    CALL(SYS_clock_gettime, CLOCK_MONOTONIC, &now, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Saves the registers that a function must keep on its stack, and goes on in `keep` on another stack. */
__attribute__((naked, noinline)) static void leave_main(void **saved, void *stack, void (*keep)(void))
{
    __asm__("push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
            "mov %rsp, (%rdi)\n mov %rsi, %rsp\n xor %ebp, %ebp\n call *%rdx\n ud2");
}

/* Comes back from `leave_main`, whose stack has been put back. */
__attribute__((naked, noinline, noreturn)) static void enter_main(void *saved)
{
    __asm__("mov %rdi, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret");
}

/* Clones a task that begins in `armed`. `pid` gets its number before it runs. */
__attribute__((naked, noinline)) static long clone_task(long flags, void *stack, _Atomic int32_t *pid,
                                                        void (*armed)(void))
{
    __asm__("mov %rcx, %r9\n mov $56, %eax\n xor %r10d, %r10d\n xor %r8d, %r8d\n syscall\n"
            "test %rax, %rax\n jnz 1f\n xor %ebp, %ebp\n call *%r9\n ud2\n"
            "1: ret");
}

/* The task: becomes what the C library believes the main thread to be, and waits for its order. */
static void armed(void)
{
    CALL(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0);
    memory_close();
    CALL(SYS_set_robust_list, keeper->robust_list, keeper->robust_list_bytes, 0, 0);
    if (keeper->rseq)
        CALL(SYS_rseq, keeper->rseq, RSEQ_BYTES, 0, RSEQ_SIG);
    *keeper->tid = (int)CALL(SYS_set_tid_address, keeper->tid, 0, 0, 0);
    atomic_store(&orders->armed, 1);
    futex_wake(&orders->armed);
    while (atomic_load(&orders->go) == 0)
        futex_wait(&orders->go, 0);
    atomic_store(&orders->go, 0);
    atomic_store(&orders->main_ns, now_ns());
    enter_main(keeper->main_stack);
}

/* The keeper: arms a task, sleeps until its run has ended, puts the memory back. */
static void keep(void)
{
    memory_take();
    for (;;) {
        if (clone_task(CLONE_VM | CLONE_PARENT | CLONE_PARENT_SETTID | SIGCHLD,
                       keeper->armed_stack + STACK_BYTES, &orders->pid, armed) < 0)
            give_up();
        while (atomic_load(&orders->reset) == 0)
            futex_wait(&orders->reset, 0);
        atomic_store(&orders->reset, 0);
        memory_put_back();
    }
}

/* Takes from this thread what its runs have: its number's place, its list of locks, its restartable sequences. */
static void give_up_thread(void)
{
    if (prctl(PR_GET_TID_ADDRESS, &keeper->tid) != 0)
        give_up();
    if (syscall(SYS_get_robust_list, 0, &keeper->robust_list, &keeper->robust_list_bytes) != 0)
        give_up();
    syscall(SYS_set_robust_list, NULL, keeper->robust_list_bytes);
    syscall(SYS_set_tid_address, &keeper->no_tid);
    if (__rseq_size == 0)
        return;
    keeper->rseq = (char *)__builtin_thread_pointer() + __rseq_offset;
    if (syscall(SYS_rseq, keeper->rseq, RSEQ_BYTES, 1 /* unregister */, RSEQ_SIG) != 0)
        give_up();
}

/* Maps the page of orders, which `path` names. */
static void map_orders(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    orders = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd < 0 || orders == MAP_FAILED)
        give_up();
    close(fd);
}

/* Stands before the program's main. Each run comes back from `leave_main`. */
static int kept_main(int argc, char **argv, char **envp)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    map_orders(getenv("REGROW_PROTOTYPE"));
    /* The program's environment is the caller's. */
    unsetenv("REGROW_PROTOTYPE");
    unsetenv("LD_PRELOAD");
    keeper = mmap(NULL, sizeof *keeper, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (keeper == MAP_FAILED)
        give_up();
    memory_prepare();
    give_up_thread();
    leave_main(&keeper->main_stack, keeper->stack + STACK_BYTES, keep);
    return program_main(argc, argv, envp);
}

/* The C library's function of this name calls main. This one hands it another main. */
__attribute__((visibility("default")))
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    int (*real)(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *) =
        dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = main;
    return real(getenv("REGROW_PROTOTYPE") ? kept_main : main, argc, argv, init, fini, rtld_fini, stack_end);
}
