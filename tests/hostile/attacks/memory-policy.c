/* Binds memory of the program to a node. */
#include "hostile.h"

static void strike(void)
{
    unsigned long nodes = 1;
    fill(zeroes, sizeof zeroes, 0x57414c45);
    if (syscall(SYS_mbind, zeroes, sizeof zeroes, 2, &nodes, 8, 0) != 0)
        LACK("mbind");
    syscall(SYS_set_mempolicy, 3, &nodes, 8);
}
