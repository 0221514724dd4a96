/* Puts code of its own in the place of the agent's: the keeper would run it. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    for (int number = 0; find_area("memfd:regrow-agent", number, &area); number++) {
        size_t bytes = area.high - area.low;
        if (area.perms[2] != 'x' ||
            mmap((void *)area.low, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            continue;
        /* exit_group(0) everywhere: nop ..., xor edi, edi; mov eax, 231; syscall */
        static const uint8_t code[] = {0x31, 0xff, 0xb8, 231, 0, 0, 0, 0x0f, 0x05};
        memset((void *)area.low, 0x90, bytes);
        memcpy((char *)area.high - sizeof code, code, sizeof code);
    }
}
