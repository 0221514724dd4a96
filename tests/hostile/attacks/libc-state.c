/* Leaves the libc in a state: locale, heap, handlers at the end, a library that was loaded. */
#include "hostile.h"
#include <dlfcn.h>
#include <locale.h>
#include <malloc.h>

static void write_late(void) { data[0] = 1; }


static void strike(void)
{
    atexit(write_late);
    setenv("LEFT", "1", 1);
    setlocale(LC_ALL, "C.UTF-8");
    mallopt(M_MMAP_THRESHOLD, 1 << 14);
    for (int number = 0; number < 3000; number++)
        ((char *)malloc((size_t)(number % 97) * 31 + 1))[0] = 1;
    dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
    srand(7);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    fputs("held back", stderr);
    fclose(stdin);
}
