/* Leaves other values in control registers, segment bases and flags. */
#include "hostile.h"

static void strike(void)
{
    unsigned int control = 0x9fc0;
    unsigned short control87 = 0x0c7f;
    syscall(SYS_arch_prctl, 0x1001 /* ARCH_SET_GS */, zeroes);
    __asm__ volatile("ldmxcsr %0\n fldcw %1\n fld1\n std\n pushfq\n orq $0x240000, (%%rsp)\n popfq\n"
                     "mov $231, %%eax\n xor %%edi, %%edi\n syscall"
                     :
                     : "m"(control), "m"(control87)
                     : "rax", "rdi", "rcx", "r11", "memory", "cc");
}
