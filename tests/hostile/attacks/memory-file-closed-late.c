/* Opens /proc/self/mem for somebody who only reads it later. */
#define LINGERS
#include "hostile.h"

static int memory;
static uint64_t seen;


static void linger(void)
{
    (void)!pread(memory, &seen, sizeof seen, (off_t)(uintptr_t)data);
}

static void strike(void)
{
    memory = MUST(open("/proc/self/mem", O_RDONLY));
}
