/* Writes into the memory of its keeper by the keeper's number, and goes on with it when the run is over. */
#define LINGERS
#include "hostile.h"

static pid_t held;


static void linger(void)
{
    static uint64_t word = 0x57414c45;
    struct iovec from = {&word, sizeof word}, to = {(void *)zeroes, sizeof word};
    if (held != 0)
        process_vm_writev(held, &from, 1, &to, 1, 0);
}

static void strike(void)
{
    held = keeper();
    linger();
}
