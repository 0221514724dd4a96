/* Raises its score for the killer of processes when memory is short. */
#include "hostile.h"

static void strike(void)
{
    int file = MUST(open("/proc/self/oom_score_adj", O_WRONLY));
    write_all(file, "700", 3);
}
