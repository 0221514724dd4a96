/* Ends while the kernel reads into its memory. */
#include "hostile.h"
#include <linux/aio_abi.h>

static void strike(void)
{
    unsigned long context = 0;
    int file = open("/proc/self/exe", O_RDONLY | O_DIRECT);
    if (file < 0 || syscall(SYS_io_setup, 64, &context) != 0)
        LACK("direct input");
    static struct iocb block[32], *list[32];
    for (int i = 0; i < 32; i++) {
        block[i].aio_lio_opcode = IOCB_CMD_PREAD;
        block[i].aio_fildes = (uint32_t)file;
        block[i].aio_buf = (uintptr_t)(zeroes + (size_t)i * 2 * PAGE / 8);
        block[i].aio_nbytes = 2 * PAGE;
        list[i] = &block[i];
    }
    syscall(SYS_io_submit, context, 32, list);
    kill(getpid(), SIGKILL);
}
