/* Has /proc/self/exe name another file. */
#include "hostile.h"
#include "memory-map.h"

static void strike(void)
{
    int file = MUST(open("/bin/true", O_RDONLY));
    if (prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, file, 0, 0) == 0)
        return;
    set_map(NULL, 0, file);
}
