/* Changes data, the libc's too, and has the kernel forget that they were written. */
#include "hostile.h"

static void strike(void)
{
    struct area libc = {0};
    data[1] = 0x57414c45;
    fill(zeroes, sizeof zeroes, 0x57414c45);
    forget_writes(data, sizeof data);
    forget_writes(zeroes, sizeof zeroes);
    for (int number = 0; find_area("libc.so", number, &libc); number++)
        if (libc.perms[1] == 'w') {
            /* The end of the libc's own variables: nothing of this program uses them. */
            ((volatile uint64_t *)libc.high)[-8] ^= 0x57414c45;
            forget_writes((void *)libc.low, libc.high - libc.low);
        }
}
