/* Unmaps the libc's code, and ends without it. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("libc.so", number, &area); number++)
        if (area.perms[2] == 'x') {
            const long low = (long)area.low, length = (long)(area.high - area.low);
            __asm__ volatile("mov %0, %%rdi\n mov %1, %%rsi\n mov $11, %%eax\n syscall\n"
                             "xor %%edi, %%edi\n mov $231, %%eax\n syscall"
                             :
                             : "r"(low), "r"(length)
                             : "rax", "rdi", "rsi", "rcx", "r11", "memory");
        }
}
