/* Writes to constants and data through /proc/self/mem, and goes on with it when the run is over. */
#define LINGERS
#include "hostile.h"

static int memory;


static void linger(void)
{
    write_by_file(memory, zeroes, 0x57414c45);
    write_by_file(memory, data, 0x57414c45);
}

static void strike(void)
{
    memory = MUST(open("/proc/self/mem", O_RDWR));
    MUST(write_by_file(memory, (volatile void *)constants, 0x57414c45) - 1);
    linger();
}
