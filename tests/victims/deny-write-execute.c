/* Memory-deny-write-execute: the kernel has no way back from it. */
#include "maps.h"
#include <sys/prctl.h>
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif

static void check(void)
{
    int mode = prctl(PR_GET_MDWE, 0, 0, 0, 0);
    if (mode < 0)
        skip("PR_GET_MDWE: %s", strerror(errno));
    same("memory-deny-write-execute", mode, 0);
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mprotect(page, PAGE, PROT_READ | PROT_EXEC) != 0)
        fail("a page cannot be made executable: %s", strerror(errno));
    munmap(page, PAGE);
}

static void dirty(void) { MUST(prctl(PR_SET_MDWE, 1, 0, 0, 0)); }
