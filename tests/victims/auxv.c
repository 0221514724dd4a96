/* The auxiliary vector: the kernel's, the libc's and the one on the stack agree. */
#include "maps.h"
#include <link.h>
#include <sys/auxv.h>

static ElfW(auxv_t) * on_stack(void)
{
    char **at = victim_envp;
    while (*at != NULL)
        at++;
    return (ElfW(auxv_t) *)(at + 1);
}

static void check(void)
{
    static ElfW(auxv_t) kernel[64];
    slurp("/proc/self/auxv", (char *)kernel, sizeof kernel);
    ElfW(auxv_t) *stack = on_stack();
    for (int i = 0; i < 64; i++) {
        if (stack[i].a_type != kernel[i].a_type || stack[i].a_un.a_val != kernel[i].a_un.a_val)
            fail("entry %d is %lu:%#lx on the stack, %lu:%#lx in /proc/self/auxv", i,
                 stack[i].a_type, stack[i].a_un.a_val, kernel[i].a_type, kernel[i].a_un.a_val);
        if (kernel[i].a_type == AT_NULL)
            break;
        if (kernel[i].a_type == AT_HWCAP) /* glibc has its own idea of this one */
            continue;
        if (kernel[i].a_un.a_val != getauxval(kernel[i].a_type))
            fail("getauxval(%lu) is %#lx, not %#lx", kernel[i].a_type,
                 getauxval(kernel[i].a_type), kernel[i].a_un.a_val);
    }
    same("AT_PAGESZ", (long long)getauxval(AT_PAGESZ), PAGE);
    same("AT_UID", (long long)getauxval(AT_UID), getuid());
    same("AT_EUID", (long long)getauxval(AT_EUID), geteuid());
    same("AT_GID", (long long)getauxval(AT_GID), getgid());
    same("AT_SECURE", (long long)getauxval(AT_SECURE), 0);
    expect_text("EXECFN", (const char *)getauxval(AT_EXECFN));
    if (!readable((void *)getauxval(AT_RANDOM), 16))
        fail("AT_RANDOM points to nothing");
    struct map map;
    if (!map_at((void *)getauxval(AT_ENTRY), &map) || map.perms[2] != 'x')
        fail("AT_ENTRY is not in code");
    expect_perms((void *)getauxval(AT_PHDR), "r--p", "the program's headers");
}

static void dirty(void)
{
    memset((char *)getauxval(AT_EXECFN), 'X', 5);
    memset((char *)getauxval(AT_RANDOM), 0, 16);
    for (ElfW(auxv_t) *entry = on_stack(); entry->a_type != AT_NULL; entry++)
        if (entry->a_type == AT_PAGESZ || entry->a_type == AT_UID)
            entry->a_un.a_val = 77;
}
