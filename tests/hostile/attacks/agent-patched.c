/* Writes into the agent's code by mprotect and by /proc/self/mem. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    int memory = MUST(open("/proc/self/mem", O_RDWR));
    for (int number = 0; find_area("memfd:regrow-agent", number, &area); number++) {
        if (area.perms[2] != 'x')
            continue;
        for (uintptr_t at = area.low; at < area.high; at += 64) {
            uint64_t traps = 0xcccccccccccccccc;
            (void)!pwrite(memory, &traps, sizeof traps, (off_t)at);
        }
        if (mprotect((void *)area.low, area.high - area.low, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
            memset((void *)area.low, 0xcc, area.high - area.low);
    }
}
