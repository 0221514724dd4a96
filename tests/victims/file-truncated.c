/* Mapped files that become shorter under the run, which handles the SIGBUS and leaves them mapped. */
#include "maps.h"
#include <setjmp.h>
#include <signal.h>

#define HERE ((char *)0x150000000000)
static sigjmp_buf back;
static volatile int faults;
static volatile uint64_t data[2 * PAGE / 8] __attribute__((aligned(4096))) = {7};

static void handler(int number)
{
    (void)number;
    faults++;
    siglongjmp(back, 1);
}

static void check(void)
{
    same("faults", faults, 0);
    if (!unmapped(HERE, 64 * PAGE))
        fail("something is mapped at %p", (void *)HERE);
    if (!readable(data, sizeof data))
        fail("data cannot be read");
    same("data", (long long)data[0], 7);
    struct sigaction action;
    MUST(sigaction(SIGBUS, NULL, &action));
    same("SIGBUS has a handler", action.sa_handler != SIG_DFL, 0);
}

static void touch(volatile char *address)
{
    if (sigsetjmp(back, 1) == 0)
        *address = 1;
}

static void dirty(void)
{
    char name[40];
    snprintf(name, sizeof name, "short-%d", getpid());
    int fd = MUST(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600));
    MUST(ftruncate(fd, 16 * PAGE));
    const int rw = PROT_READ | PROT_WRITE;
    char *shared = MUST(mmap(HERE, 16 * PAGE, rw, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0));
    char *own = MUST(mmap(HERE + 32 * PAGE, 16 * PAGE, rw, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0));
    MUST(mmap((void *)data, PAGE, rw, MAP_SHARED | MAP_FIXED, fd, 0)); /* over its own data */
    own[PAGE] = 1;
    MUST(ftruncate(fd, 0));
    unlink(name);
    struct sigaction action = {.sa_handler = handler};
    MUST(sigaction(SIGBUS, &action, NULL));
    touch(shared + PAGE);
    touch(own + 2 * PAGE);
    touch((char *)data);
    same("faults in the run", faults, 3);
}
