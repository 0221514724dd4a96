/* A program without a C library, as small static tools are: the registers, the flags and the stack
 * at its entry are the kernel's own. Prints AT_RANDOM, which no two runs share. */
#include <elf.h>
#include <stdint.h>
#include <sys/syscall.h>

static volatile uint64_t data[1024] = {1, 2, 3}, zero[4096];
uint64_t entry_registers[16]; /* as `_start` found them */

__asm__(".globl _start\n_start:\n"
        "mov %rax, entry_registers(%rip)\n mov %rbx, entry_registers+8(%rip)\n"
        "mov %rcx, entry_registers+16(%rip)\n mov %rdx, entry_registers+24(%rip)\n"
        "mov %rsi, entry_registers+32(%rip)\n mov %rdi, entry_registers+40(%rip)\n"
        "mov %rbp, entry_registers+48(%rip)\n mov %r8, entry_registers+56(%rip)\n"
        "mov %r9, entry_registers+64(%rip)\n mov %r10, entry_registers+72(%rip)\n"
        "mov %r11, entry_registers+80(%rip)\n mov %r12, entry_registers+88(%rip)\n"
        "mov %r13, entry_registers+96(%rip)\n mov %r14, entry_registers+104(%rip)\n"
        "mov %r15, entry_registers+112(%rip)\n"
        "pushfq\n popq entry_registers+120(%rip)\n"
        "mov %rsp, %rdi\n and $-16, %rsp\n call begin\n hlt\n");

static long call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static void text(int fd, const char *line)
{
    long n = 0;
    while (line[n] != 0)
        n++;
    call(SYS_write, fd, (long)line, n);
}

static void require(int good, const char *line)
{
    if (good)
        return;
    text(2, "victim " VICTIM ": ");
    text(2, line);
    text(2, "\n");
    call(SYS_exit_group, 1, 0, 0);
}

static void check(void)
{
    for (int i = 0; i < 15; i++)
        require(entry_registers[i] == 0, "a register is not zero at the entry");
    require((entry_registers[15] & ~UINT64_C(0x44)) == 0x202, "the flags differ at the entry");
    require(data[0] + data[1] + data[2] == 6 && data[1023] == 0, "the data differs");
    for (int i = 0; i < 4096; i++)
        require(zero[i] == 0, "bss is not zero");
    unsigned int mxcsr;
    unsigned short control;
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(control));
    require(mxcsr == 0x1f80 && control == 0x37f, "the floating point control words differ");
    unsigned long base = 1;
    call(SYS_arch_prctl, 0x1003 /* get fs */, (long)&base, 0);
    require(base == 0, "the fs base is set");
}

static void print_random(const Elf64_auxv_t *entry)
{
    char line[33];
    for (; entry->a_type != AT_RANDOM; entry++)
        require(entry->a_type != AT_NULL, "there is no AT_RANDOM");
    const unsigned char *bytes = (const unsigned char *)entry->a_un.a_val;
    for (int i = 0; i < 16; i++) {
        line[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        line[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    line[32] = '\n';
    call(SYS_write, 1, (long)line, 33);
}

static void dirty(uintptr_t *stack)
{
    for (int i = 0; i < 4096; i++)
        zero[i] = data[i & 1023] = 0xdead;
    for (int i = 0; i < 100; i++)
        ((volatile uintptr_t *)stack)[-500 - i] = 0xdead;
    unsigned int mxcsr = 0x9fc0;
    unsigned short control = 0x0c7f;
    __asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(control));
    call(SYS_arch_prctl, 0x1002 /* set fs */, (long)data, 0);
}

__attribute__((used)) static void begin(uintptr_t *stack)
{
    require(((uintptr_t)stack & 15) == 0, "the stack is not aligned at the entry");
    char **at = (char **)(stack + 1) + stack[0];
    require(*at++ == 0, "the arguments do not end in NULL");
    int pretend = 0;
    for (; *at != 0; at++) {
        const char *entry = *at, *name = "VICTIM_PRETEND_STALE=";
        while (*name != 0 && *entry == *name)
            entry++, name++;
        pretend |= *name == 0;
    }
    check();
    print_random((Elf64_auxv_t *)(at + 1));
    dirty(stack);
    if (pretend)
        check();
    call(SYS_exit_group, 0, 0, 0);
}
