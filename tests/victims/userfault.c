/* Memory registered with userfaultfd: nobody is there any more to serve its faults. */
#include "maps.h"
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#define HERE ((char *)0x140000000000)
static volatile uint64_t zero[16 * PAGE / 8] __attribute__((aligned(4096)));

static void check(void)
{
    expect_no_flags(zero, "um uw ui", "bss");
    expect_words(zero, sizeof zero, 0, "bss");
    if (!unmapped(HERE, 16 * PAGE))
        fail("something is mapped at %p", (void *)HERE);
}

static void dirty(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* user mode only */);
    if (fd < 0)
        skip("userfaultfd: %s", strerror(errno));
    struct uffdio_api api = {.api = UFFD_API};
    MUST(ioctl(fd, UFFDIO_API, &api));
    char *at = MUST(mmap(HERE, 16 * PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    struct uffdio_register added = {{(uintptr_t)at, 16 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    MUST(ioctl(fd, UFFDIO_REGISTER, &added));
    fill_words(zero, 8 * PAGE, 0xdead);
    struct uffdio_register own = {{(uintptr_t)zero, sizeof zero}, UFFDIO_REGISTER_MODE_MISSING, 0};
    MUST(ioctl(fd, UFFDIO_REGISTER, &own));
}
