/* A run that does what its arguments say to the memory that it shares with its keeper, and notes that it has begun.
 *
 *   attack NOTES STATUS what [arguments]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long zero; /* .bss: a write by somebody else shows here */
static const volatile char constant[] = "constant";

struct area { char *start, *end; };

/* The mapping whose line has these words, the first of those from `after` on. */
static struct area find(const char *name, const char *rights)
{
    struct area found = { 0, 0 };
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && !found.start && fgets(line, sizeof line, maps))
        if (strstr(line, name) && strstr(line, rights))
            sscanf(line, "%p-%p", (void **)&found.start, (void **)&found.end);
    if (maps)
        fclose(maps);
    return found;
}

static int memory_file(void) { return open("/proc/self/mem", O_RDWR); }

/* What the agent is: none of it can be taken away, changed or replaced. The number of the first thing that could be. */
static int agent_gives_way(void)
{
    static const char *const sealed[] = { "regrow-agent", "regrow-image" };
    for (int which = 0; which < 2; which++) {
        struct area area = find(sealed[which], "s ");
        size_t bytes = (size_t)(area.end - area.start);
        char before[64], *middle = area.start + 4096 % bytes;
        if (!area.start)
            return 10 + which;
        memcpy(before, area.start, sizeof before);
        if (munmap(area.start, bytes) == 0 || munmap(middle, 4096) == 0)
            return 20 + which;
        if (mmap(area.start, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
            return 30 + which;
        if (mprotect(area.start, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
            return 40 + which;
        if (mremap(area.start, bytes, bytes + 4096, MREMAP_MAYMOVE) != MAP_FAILED)
            return 50 + which;
        if (pwrite(memory_file(), "attack", 6, (off_t)area.start) > 0)
            return 60 + which;
        if (memcmp(before, area.start, sizeof before))
            return 70 + which;
    }
    for (int which = 0; which < 2; which++) {
        struct area area = find(which ? "regrow-control" : "regrow-agent", "rw-");
        if (!area.start || munmap(area.start, (size_t)(area.end - area.start)) == 0)
            return 80 + which;
    }
    return 0;
}

/* What a child of the run has of the agent. */
static int child_has_agent(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(find("regrow-control", "").start || find("regrow-image", "").start || find("regrow-agent", "r-x").start);
    waitpid(child, &status, 0);
    return status != 0;
}

/* Leaves a process that writes to .bss through the memory file until the notes are gone. */
static void leave_writer(const char *notes)
{
    int file = memory_file();
    if (fork() != 0)
        return;
    setsid();
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (long value = 1; access(notes, F_OK) == 0; value++, usleep(2000))
        if (pwrite(file, &value, sizeof value, (off_t)&zero) < 0)
            break;
    _exit(0);
}

/* Shares the memory until the notes are gone. */
static int play_armed(void *notes)
{
    struct timespec while_ago = { 0, 2000000 };
    while (syscall(SYS_access, notes, F_OK) == 0)
        syscall(SYS_nanosleep, &while_ago, 0);
    return 0;
}

int main(int count, char **words)
{
    if (count < 4)
        return 100;
    const char *what = words[3];
    if (zero || strcmp((const char *)constant, "constant"))
        return 101;
    int notes = open(words[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(notes, "begun\n", 6) != 6)
        return 102;
    close(notes);
    struct area control = find("regrow-control", "");
    if (!strcmp(what, "word") && control.start) {
        *(volatile unsigned *)(control.start + atoi(words[4])) = (unsigned)strtoul(words[5], 0, 0);
    } else if (!strcmp(what, "own-pid") && control.start) {
        *(volatile int *)(control.start + atoi(words[4])) = getpid();
    } else if (!strcmp(what, "armed-sharer") && control.start) {
        /* A sibling that shares the memory, as a process that waits for an order does. */
        int sibling = clone(play_armed, (char *)malloc(65536) + 65536, CLONE_VM | CLONE_PARENT, words[1]);
        *(volatile int *)(control.start + 8) = sibling;
        *(volatile unsigned *)control.start = 2;
    } else if (!strcmp(what, "fill") && control.start) {
        memset(control.start, atoi(words[4]), 4096);
    } else if (!strcmp(what, "stack")) {
        struct area private = find("regrow-agent", "rw-p");
        size_t half = (size_t)(private.end - private.start) / 2;
        if (private.start)
            memset(private.start + half, atoi(words[4]), half);
    } else if (!strcmp(what, "agent") && control.start) {
        int gave_way = agent_gives_way();
        if (gave_way)
            return gave_way;
    } else if (!strcmp(what, "child") && control.start) {
        if (child_has_agent())
            return 103;
    } else if (!strcmp(what, "leave")) {
        leave_writer(words[1]);
    }
    _exit(atoi(words[2]));
}
