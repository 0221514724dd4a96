/* Shared anonymous memory, System V and POSIX shared memory left attached, also by children. */
#include "maps.h"
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

#define HERE ((char *)0x120000000000)
static volatile uint64_t own[PAGE / 8] __attribute__((aligned(4096))) = {7, 7};

static void check(void)
{
    struct map map;
    slurp("/proc/self/maps", maps_text, sizeof maps_text);
    for (char *at = maps_text; (at = map_line(at, &map)) != NULL;)
        if (strstr(map.path, "SYSV") || strstr(map.path, "/dev/shm") || strstr(map.path, "/dev/zero"))
            fail("there is a mapping %s '%s' at %lx", map.perms, map.path, map.low);
    if (!unmapped(HERE, 4096 * PAGE))
        fail("something is mapped at %p", (void *)HERE);
    expect_perms(own, "rw-p", "data");
    same("data", (long long)own[0], 7);
    same("data above", (long long)own[1], 7);
}

static char *take(int slot, int fd, int flags)
{
    char *at = MUST(mmap(HERE + slot * 16 * (long)PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
                         flags | MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0));
    memset(at, 0x5a, 4 * PAGE);
    return at;
}

static void posix(void)
{
    char name[40];
    snprintf(name, sizeof name, "/left-behind-%d", getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return; /* no /dev/shm here */
    shm_unlink(name);
    MUST(ftruncate(fd, 4 * PAGE));
    take(1, fd, 0);
}

static void system_v(void)
{
    int id = shmget(IPC_PRIVATE, 4 * PAGE, IPC_CREAT | 0600);
    if (id < 0)
        return;
    MUST(shmat(id, HERE + 64 * PAGE, 0));
    MUST(shmctl(id, IPC_RMID, NULL));
    int semaphore = MUST(semget(IPC_PRIVATE, 1, IPC_CREAT | 0600));
    struct sembuf up = {0, 1, SEM_UNDO};
    MUST(semop(semaphore, &up, 1));
    MUST(semctl(semaphore, 0, IPC_RMID));
}

static void dirty(void)
{
    char *anonymous = take(0, -1, MAP_ANONYMOUS);
    posix();
    system_v();
    pid_t pid = MUST(fork());
    if (pid == 0) {
        anonymous[5] = 'c';
        _exit(0);
    }
    MUST(waitpid(pid, NULL, 0));
    same("a byte that a child wrote", anonymous[5], 'c');
    own[0] = 1;
    MUST(mmap((void *)own, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
              0));
}
