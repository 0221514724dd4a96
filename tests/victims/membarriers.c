/* Registrations for membarrier: an expedited command without one is refused. */
#include "maps.h"
#include <linux/membarrier.h>

static const int commands[][2] = {
    {MEMBARRIER_CMD_PRIVATE_EXPEDITED, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED},
    {MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE,
     MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE},
};

static void check(void)
{
    long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (known < 0)
        skip("membarrier: %s", strerror(errno));
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if ((known & commands[i][0]) && syscall(SYS_membarrier, commands[i][0], 0, 0) == 0)
            fail("membarrier command %d is registered", commands[i][0]);
}

static void dirty(void)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        syscall(SYS_membarrier, commands[i][1], 0, 0);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}
