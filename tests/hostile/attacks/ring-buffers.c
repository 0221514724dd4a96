/* Registers memory with io_uring, and has the kernel write there when the run is over. */
#define LINGERS
#include "hostile.h"
#include <linux/io_uring.h>

static int ring, source;
static char *queue;
static struct io_uring_sqe *entries;
static struct io_sqring_offsets where;


static void linger(void)
{
    uint32_t *tail = (uint32_t *)(queue + where.tail), mask = *(uint32_t *)(queue + where.ring_mask);
    uint32_t *array = (uint32_t *)(queue + where.array), slot = *tail & mask;
    memset(&entries[slot], 0, sizeof *entries);
    entries[slot].opcode = IORING_OP_READ_FIXED;
    entries[slot].fd = source;
    entries[slot].addr = (uintptr_t)zeroes;
    entries[slot].len = 64;
    array[slot] = slot;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
}

static void strike(void)
{
    struct io_uring_params parameters = {0};
    struct iovec buffer = {(void *)zeroes, 16 * PAGE};
    ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0)
        LACK("io_uring_setup");
    MUST(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1));
    size_t bytes = parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t);
    queue = MUST(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING));
    entries = MUST(mmap(NULL, parameters.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                        IORING_OFF_SQES));
    where = parameters.sq_off;
    source = MUST(open("/dev/urandom", O_RDONLY));
    linger();
}
