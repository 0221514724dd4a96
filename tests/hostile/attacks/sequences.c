/* Takes its rseq area from the kernel and registers another one, in constants. */
#include "hostile.h"
#include <sys/rseq.h>

static void strike(void)
{
    char *thread = __builtin_thread_pointer();
    syscall(SYS_rseq, thread + __rseq_offset, 32, 1, 0x53053053);
    syscall(SYS_rseq, data + 64, 32, 0, 0x53053053);
}
