/* Asynchronous I/O: contexts of io_setup and a ring of io_uring, left with work in flight. */
#include "maps.h"
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/eventfd.h>

static void check(void)
{
    struct map map;
    if (map_named("[aio]", &map))
        fail("an I/O context is mapped at %lx", map.low);
    if (map_named("io_uring", &map))
        fail("a ring is mapped at %lx", map.low);
    for (int fd = 3; fd < 64; fd++) {
        char path[32], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "io_uring"))
            fail("descriptor %d is a ring", fd);
    }
}

static void leave_contexts(void)
{
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, 8, &context) != 0)
        return;
    static char byte[8];
    int event = MUST(eventfd(0, 0)); /* never ready: the poll stays in flight */
    struct iocb poll = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = (uint32_t)event,
                        .aio_buf = 1};
    struct iocb read_exe = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)byte,
                            .aio_fildes = (uint32_t)MUST(open("/proc/self/exe", O_RDONLY)),
                            .aio_nbytes = sizeof byte};
    struct iocb *both[] = {&poll, &read_exe};
    MUST(syscall(SYS_io_submit, context, 2, both));
    context = 0;
    MUST(syscall(SYS_io_setup, 200, &context));
}

static void leave_ring(void)
{
    struct io_uring_params params = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 8, &params);
    if (ring < 0)
        return; /* forbidden here */
    size_t size = params.sq_off.array + params.sq_entries * 4;
    uint32_t *queue = MUST(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0));
    struct io_uring_sqe *entries = MUST(mmap(NULL, params.sq_entries * sizeof *entries,
                                             PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0x10000000));
    static char line[16];
    int pair[2];
    MUST(pipe(pair));
    entries[0] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = pair[0],
                                       .addr = (uintptr_t)line, .len = sizeof line};
    queue[params.sq_off.array / 4] = 0;
    __atomic_store_n(&queue[params.sq_off.tail / 4], 1, __ATOMIC_RELEASE);
    MUST(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0));
}

static void dirty(void)
{
    leave_contexts();
    leave_ring();
}
