/* Changes what its core dumps hold. */
#include "hostile.h"

static void strike(void)
{
    int file = MUST(open("/proc/self/coredump_filter", O_WRONLY));
    write_all(file, "0x7f", 4);
}
