/* Writes into the image that the reset copies from. */
#include "hostile.h"

static void strike(void)
{
    struct area area;
    int memory = MUST(open("/proc/self/mem", O_RDWR));
    for (int number = 0; find_area("memfd:regrow-image", number, &area); number++) {
        mprotect((void *)area.low, area.high - area.low, PROT_READ | PROT_WRITE);
        for (uintptr_t at = area.low; at < area.high; at += PAGE) {
            uint64_t word = 0;
            if (pread(memory, &word, sizeof word, (off_t)(at + 8)) == sizeof word) {
                word ^= 0x57414c45;
                (void)!pwrite(memory, &word, sizeof word, (off_t)(at + 8));
            }
        }
    }
    data[1] = 0x57414c45;
}
