/* Runs that end by a signal, in the middle of writing everywhere; the argument says by which:
 * kill, abort, segv, core (with a core file), fpe, ill, overflow (of the stack), bus, alarm, thread
 * (a thread's fault), trap, term. */
#define VICTIM_END
#include "maps.h"
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static volatile uint64_t zero[64 * PAGE / 8], data[8 * PAGE / 8] = {1, 2, 3};
static volatile int dying;

static void check(void)
{
    same("dying", dying, 0);
    same("data", (long long)(data[0] + data[1] + data[2]), 6);
    expect_words(zero, sizeof zero, 0, "bss");
    if (status_field("VmStk", 10) > 1024)
        fail("VmStk is %llu kB", status_field("VmStk", 10));
    void *block = malloc(100);
    free(block);
}

static void dirty(void)
{
    dying = 1;
    fill_words(data, sizeof data, 0xdead);
    fill_words(zero, sizeof zero, 0xdead);
    void *volatile leaked = malloc(1 << 20);
    memset(leaked, 1, 1 << 20);
}

static void *write_on(void *unused)
{
    for (;;)
        fill_words(zero, sizeof zero, 0xdead);
    return unused;
}

static void *fault(void *unused)
{
    *(volatile char *)8 = 1;
    return unused;
}

#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static uint64_t overflow(volatile uint64_t *above)
{
    volatile uint64_t here[512];
    here[0] = above[0] + 1;
    return overflow(here) + here[0];
}

static void truncated_file(void)
{
    int fd = MUST(memfd_create("short", 0));
    MUST(ftruncate(fd, PAGE));
    char *at = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    MUST(ftruncate(fd, 0));
    *(volatile char *)at = 1;
}

static void end(void)
{
    const char *how = victim_argc > 1 ? victim_argv[1] : "kill";
    pthread_t thread;
    same("pthread_create", pthread_create(&thread, NULL, write_on, NULL), 0);
    struct rlimit core = {0, 0};
    if (strcmp(how, "core") == 0) {
        MUST(getrlimit(RLIMIT_CORE, &core));
        core.rlim_cur = core.rlim_max;
    }
    setrlimit(RLIMIT_CORE, &core);
    volatile int nothing = 0;
    switch (how[0] << 8 | how[1]) {
    case 'k' << 8 | 'i': kill(getpid(), SIGKILL); break;
    case 'a' << 8 | 'b': abort();
    case 's' << 8 | 'e': *(volatile char *)8 = 1; break;
    case 'c' << 8 | 'o': abort();
    case 'f' << 8 | 'p': nothing = 77 / nothing; break;
    case 'i' << 8 | 'l': __builtin_trap();
    case 'o' << 8 | 'v': overflow(zero); break;
    case 'b' << 8 | 'u': truncated_file(); break;
    case 'a' << 8 | 'l': alarm(1); setitimer(0, &(struct itimerval){{0, 0}, {0, 1000}}, NULL); break;
    case 't' << 8 | 'h': pthread_create(&thread, NULL, fault, NULL); break;
    case 't' << 8 | 'r': __asm__ volatile("int3"); break;
    case 't' << 8 | 'e': raise(SIGTERM); break;
    }
    for (int i = 0; i < 200; i++)
        usleep(50000);
    fail("still alive");
}
