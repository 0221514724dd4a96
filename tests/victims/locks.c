/* Locks on files end with the run that took them: flock, POSIX, open-file locks and leases. The
 * file is `locked` in the working directory. */
#include "maps.h"
#include <sys/file.h>

static void expect_free(int fd, int command, const char *kind)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(fd, command, &lock));
    if (lock.l_type != F_UNLCK)
        fail("%s is held by process %d", kind, lock.l_pid);
}

static int held; /* for the proof: this process does not see its own POSIX lock */

static void check(void)
{
    int fd = MUST(open("locked", O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    same("the earlier run's note", held, 0);
    expect_free(fd, F_GETLK, "a POSIX lock");
    expect_free(fd, F_OFD_GETLK, "an open-file lock");
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        fail("flock: %s", strerror(errno));
    close(fd);
}

static void dirty(void)
{
    int fd = MUST(open("locked", O_RDWR));
    MUST(flock(fd, LOCK_EX));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    MUST(fcntl(fd, F_SETLK, &lock));
    int other = MUST(open("locked", O_RDWR));
    lock.l_start = 100;
    MUST(fcntl(other, F_OFD_SETLK, &lock));
    int for_lease = MUST(open("/proc/self/exe", O_RDONLY));
    fcntl(for_lease, F_SETLEASE, F_RDLCK);
    held = 1;
}
