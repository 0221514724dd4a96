/* Descriptors that a constructor opens before main: each run has them at the same place, untouched
 * by the run before, although an open file has one offset for all who share it. */
#include "maps.h"
#include <sys/stat.h>

static int file, device;
static char first[16], second[16];

__attribute__((constructor)) static void construct(void)
{
    file = MUST(open("/proc/self/exe", O_RDONLY));
    MUST(read(file, first, sizeof first));
    device = MUST(open("/dev/null", O_RDWR | O_CLOEXEC));
}

static void check(void)
{
    if (memcmp(first, "\177ELF", 4) != 0)
        fail("the constructor has read something else");
    same("the offset after the constructor", lseek(file, 0, SEEK_CUR), 16);
    same("flags of the file", fcntl(file, F_GETFD), 0);
    same("flags of the device", fcntl(device, F_GETFD), FD_CLOEXEC);
    same("the file's mode", fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK), O_RDONLY);
    same("the device's mode", fcntl(device, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK), O_RDWR);
    if (device != file + 1)
        fail("the constructor's descriptors are %d and %d", file, device);
    MUST(pread(file, second, sizeof second, 16));
    char again[16];
    same("bytes read", read(file, again, sizeof again), sizeof again);
    if (memcmp(again, second, sizeof again) != 0)
        fail("the file reads on at another place");
    struct stat file_stat, exe_stat;
    MUST(fstat(file, &file_stat));
    MUST(stat("/proc/self/exe", &exe_stat));
    same("the file's inode", (long long)file_stat.st_ino, (long long)exe_stat.st_ino);
    struct stat device_stat;
    MUST(fstat(device, &device_stat));
    same("/dev/null is a device", S_ISCHR(device_stat.st_mode), 1);
}

static void dirty(void)
{
    MUST(lseek(file, 0, SEEK_END));
    fcntl(file, F_SETFL, O_NONBLOCK);
    fcntl(file, F_SETFD, FD_CLOEXEC);
    fcntl(device, F_SETFL, O_APPEND);
    MUST(dup2(file, device));
    first[0] = 0;
}
