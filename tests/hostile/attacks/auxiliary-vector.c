/* Has the kernel tell another auxiliary vector in /proc/self/auxv. */
#include "hostile.h"
#include "memory-map.h"

static void strike(void)
{
    static uint64_t vector[40] = {6, 4096, 0x5741, 0x4c45, 0, 0};
    if (prctl(PR_SET_MM, PR_SET_MM_AUXV, vector, sizeof vector, 0) == 0)
        return;
    set_map(vector, 6 * 8, -1);
}
