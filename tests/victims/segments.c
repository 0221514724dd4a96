/* A local descriptor table and protection keys. */
#include "maps.h"
#include <asm/ldt.h>

static volatile uint64_t zero[2 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    char table[64];
    long size = syscall(SYS_modify_ldt, 0, table, sizeof table);
    if (size > 0)
        fail("there is a local descriptor table");
    unsigned short ds, es, fs, gs;
    __asm__ volatile("mov %%ds, %0; mov %%es, %1; mov %%fs, %2; mov %%gs, %3"
                     : "=r"(ds), "=r"(es), "=r"(fs), "=r"(gs));
    same("the segment selectors", ds | es | fs | gs, 0);
    int keys[16], count = 0;
    while (count < 16 && (keys[count] = (int)syscall(SYS_pkey_alloc, 0, 0)) > 0)
        count++;
    if (count != 0 && count != 15)
        fail("%d protection keys are free, not 15", count);
    while (count > 0)
        syscall(SYS_pkey_free, keys[--count]);
    expect_words(zero, sizeof zero, 0, "bss");
}

static void dirty(void)
{
    struct user_desc entry = {.entry_number = 3, .base_addr = 0x1000, .limit = 0xff,
                              .seg_32bit = 1, .useable = 1};
    if (syscall(SYS_modify_ldt, 1, &entry, sizeof entry) == 0)
        __asm__ volatile("mov %0, %%gs; mov %0, %%es" : : "r"((unsigned short)(3 << 3 | 7)));
    long key = syscall(SYS_pkey_alloc, 0, 0);
    if (key > 0)
        syscall(SYS_pkey_mprotect, zero, PAGE, PROT_READ | PROT_WRITE, key);
    fill_words(zero, sizeof zero, 0xdead);
}
