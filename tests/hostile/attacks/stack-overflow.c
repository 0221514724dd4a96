/* Overflows its stack. */
#include "hostile.h"

static volatile int depth;

static void deeper(int level)
{
    volatile char room[8192];
    memset((void *)room, level, sizeof room);
    depth = level;
    if (depth >= 0)
        deeper(level + 1);
    room[0] = 0;
}


static void strike(void)
{
    struct rlimit limit = {64 << 20, 64 << 20};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = limit.rlim_cur > 64 << 20 ? 64 << 20 : limit.rlim_cur;
    setrlimit(RLIMIT_STACK, &limit);
    deeper(1);
}
