/* Registers memory with a userfaultfd and leaves its descriptor to whoever outlives the run. */
#include "hostile.h"

static void strike(void)
{
    struct {
        uint64_t api, features, ioctls;
    } api = {0xaa, 0, 0};
    struct {
        uint64_t start, length, mode, ioctls;
    } range = {(uintptr_t)zeroes, sizeof zeroes, 1, 0};
    int fd = (int)syscall(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */);
    if (fd < 0)
        LACK("userfaultfd");
    MUST(ioctl(fd, 0xc018aa3f, &api));
    madvise((void *)zeroes, sizeof zeroes, MADV_DONTNEED);
    if (ioctl(fd, 0xc020aa00, &range) != 0)
        LACK("UFFDIO_REGISTER");
}
