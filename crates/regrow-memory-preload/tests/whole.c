/* Memory as programs use it, by malloc and mmap: prints one line, and ends with 0, where all of it holds, with the library preloaded and
 * without. The argument chooses a part. */

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static sigjmp_buf back;

static void on_fault(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

/* Whether a touch of an address faults. */
static int faults(volatile char *at) {
    struct sigaction action = {.sa_handler = on_fault}, before;
    sigaction(SIGSEGV, &action, &before);
    int faulted = sigsetjmp(back, 1);
    if (faulted == 0) {
        (void)*at;
    }
    sigaction(SIGSEGV, &before, NULL);
    return faulted;
}

static int all(const char *bytes, size_t count, char with) {
    for (size_t at = 0; at < count; at++) {
        if (bytes[at] != with) {
            return 0;
        }
    }
    return 1;
}

static char *map(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED && (uintptr_t)at % PAGE == 0);
    return at;
}

static void heap(void) {
    for (size_t bytes = 1; bytes < (size_t)20 << 20; bytes = bytes * 2 + 7) {
        char *own = malloc(bytes);
        CHECK(own != NULL && (uintptr_t)own % 16 == 0 && malloc_usable_size(own) >= bytes);
        memset(own, 1, bytes);
        own = realloc(own, bytes * 3);
        CHECK(own != NULL && all(own, bytes, 1));
        memset(own, 2, bytes * 3);
        own = realloc(own, bytes / 2 + 1);
        CHECK(own != NULL && all(own, bytes / 2 + 1, 2));
        free(own);
        char *zero = calloc(bytes, 2);
        CHECK(zero != NULL && all(zero, bytes * 2, 0));
        memset(zero, 3, bytes * 2);
        free(zero);
        zero = calloc(2, bytes);
        CHECK(zero != NULL && all(zero, bytes * 2, 0));
        free(zero);
    }
    for (size_t multiple = 8; multiple <= (size_t)8 << 20; multiple *= 2) {
        for (size_t bytes = 100; bytes < 100000; bytes *= 10) {
            void *own = NULL;
            CHECK(posix_memalign(&own, multiple, bytes) == 0 && (uintptr_t)own % multiple == 0);
            memset(own, 4, bytes);
            free(own);
            own = aligned_alloc(multiple, bytes);
            CHECK(own != NULL && (uintptr_t)own % multiple == 0);
            own = realloc(own, bytes + 5000);
            CHECK(own != NULL);
            free(own);
            own = memalign(multiple, bytes);
            CHECK(own != NULL && (uintptr_t)own % multiple == 0);
            free(own);
        }
    }
    void *own = &own;
    CHECK(posix_memalign(&own, 24, 100) == EINVAL && own == &own);
    volatile size_t most = SIZE_MAX / 4;
    errno = 0;
    CHECK(malloc(most) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(calloc(most, 8) == NULL && errno == ENOMEM && reallocarray(NULL, most, 8) == NULL);
    own = malloc(10000);
    errno = 77;
    free(own);
    free(NULL);
    CHECK(errno == 77);
    own = valloc(5000);
    CHECK((uintptr_t)own % PAGE == 0);
    free(own);
    CHECK(realloc(malloc(9000), 0) == NULL);
}

static void maps(void) {
    for (size_t pages = 16; pages < 3000; pages = pages * 2 + 1) {
        char *at = map(pages * PAGE);
        CHECK(all(at, pages * PAGE, 0));
        memset(at, 1, pages * PAGE);
        CHECK(munmap(at, pages * PAGE) == 0);
    }
    /* A part goes, the rest stays; what is gone faults; then the rest goes in two parts. */
    char *at = map(40 * PAGE);
    memset(at, 2, 40 * PAGE);
    CHECK(munmap(at + 10 * PAGE, 10 * PAGE) == 0 && munmap(at + 10 * PAGE, 10 * PAGE) == 0);
    CHECK(all(at, 10 * PAGE, 2) && all(at + 20 * PAGE, 20 * PAGE, 2));
    CHECK(faults(at + 10 * PAGE) && faults(at + 20 * PAGE - 1) && !faults(at + 20 * PAGE));
    CHECK(munmap(at, 10 * PAGE) == 0 && all(at + 20 * PAGE, 20 * PAGE, 2) && munmap(at + 20 * PAGE, 20 * PAGE) == 0);
    /* What comes next is as new, and can be written. */
    for (int time = 0; time < 20; time++) {
        char *again = map(64 * PAGE);
        CHECK(all(again, 64 * PAGE, 0));
        memset(again, 3, 64 * PAGE);
        CHECK(mprotect(again + PAGE, 7 * PAGE, time % 2 == 0 ? PROT_NONE : PROT_READ) == 0);
        CHECK(faults(again + PAGE) == (time % 2 == 0) && all(again + 8 * PAGE, 56 * PAGE, 3));
        CHECK(madvise(again + 8 * PAGE, 2 * PAGE, MADV_DONTNEED) == 0 && all(again + 8 * PAGE, 2 * PAGE, 0));
        CHECK(madvise(again + 10 * PAGE, 2 * PAGE, MADV_DONTFORK) == 0);
        CHECK(munmap(again, 64 * PAGE) == 0);
    }
    /* The same of a block of the heap. */
    for (int time = 0; time < 20; time++) {
        char *own = aligned_alloc(PAGE, 4 * PAGE);
        memset(own, 4, 4 * PAGE);
        CHECK(mprotect(own, PAGE, PROT_READ) == 0 && own[0] == 4 && mprotect(own, PAGE, PROT_READ | PROT_WRITE) == 0);
        CHECK(all(own, 4 * PAGE, 4));
        free(own);
    }
    errno = 0;
    CHECK(munmap((char *)1, PAGE) == -1 && errno == EINVAL && munmap(NULL, 0) == -1);
}

static void fixed(void) {
    char name[] = "/tmp/regrow-memory-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && write(file, "a file's page", 14) == 14);
    for (int time = 0; time < 10; time++) {
        char *at = map(32 * PAGE);
        memset(at, 5, 32 * PAGE);
        char *there = mmap(at + 4 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0);
        CHECK(there == at + 4 * PAGE && strcmp(there, "a file's page") == 0);
        CHECK(munmap(at + 8 * PAGE, 2 * PAGE) == 0 && faults(at + 8 * PAGE));
        there = mmap(at + 8 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(there == at + 8 * PAGE && all(there, PAGE, 0) && faults(at + 9 * PAGE));
        CHECK(all(at, 4 * PAGE, 5) && all(at + 10 * PAGE, 22 * PAGE, 5));
        CHECK(munmap(at, 32 * PAGE) == 0);
    }
    CHECK(close(file) == 0);
}

static void moves(void) {
    for (size_t pages = 17; pages < 2000; pages = pages * 2 + 3) {
        char *at = map(pages * PAGE);
        memset(at, 6, pages * PAGE);
        at = mremap(at, pages * PAGE, (pages + 1) * PAGE, MREMAP_MAYMOVE);
        CHECK(at != MAP_FAILED && all(at, pages * PAGE, 6) && all(at + pages * PAGE, PAGE, 0));
        memset(at, 7, (pages + 1) * PAGE);
        at = mremap(at, (pages + 1) * PAGE, pages * 3 * PAGE, MREMAP_MAYMOVE);
        CHECK(at != MAP_FAILED && all(at, (pages + 1) * PAGE, 7) && all(at + (pages + 1) * PAGE, (pages * 2 - 1) * PAGE, 0));
        CHECK(mremap(at, pages * 3 * PAGE, pages * PAGE, 0) == at && all(at, pages * PAGE, 7));
        at = mremap(at, pages * PAGE, pages * 2 * PAGE, MREMAP_MAYMOVE);
        CHECK(at != MAP_FAILED && all(at, pages * PAGE, 7) && all(at + pages * PAGE, pages * PAGE, 0));
        CHECK(munmap(at, pages * 2 * PAGE) == 0);
    }
    /* Protections go with it. */
    char *at = map(32 * PAGE);
    memset(at, 8, 32 * PAGE);
    CHECK(mprotect(at, 32 * PAGE, PROT_READ) == 0);
    char *moved = mremap(at, 32 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && all(moved, 32 * PAGE, 8) && munmap(moved, 64 * PAGE) == 0);
    /* To a place that the program names. */
    char *place = map(64 * PAGE);
    at = map(32 * PAGE);
    memset(place, 9, 64 * PAGE);
    memset(at, 1, 32 * PAGE);
    moved = mremap(at, 32 * PAGE, 32 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    CHECK(moved == place && all(place, 32 * PAGE, 1) && all(place + 32 * PAGE, 32 * PAGE, 9));
    CHECK(munmap(place, 64 * PAGE) == 0);
    errno = 0;
    at = map(64 * PAGE);
    CHECK(mremap(at, 64 * PAGE, 4096 * PAGE, 0) == MAP_FAILED || munmap(at, 4096 * PAGE) == 0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *shared[64];
static size_t sizes[64];

static void *thread(void *seed) {
    uint64_t dice = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15;
    for (int step = 0; step < 20000; step++) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        size_t bytes = dice % 50 == 0 ? dice % 3000000 + 1 : dice % 60000 + 1;
        char *own = dice % 3 == 0 ? calloc(bytes, 1) : malloc(bytes);
        CHECK(own != NULL && (dice % 3 != 0 || (own[0] == 0 && own[bytes - 1] == 0)));
        own[0] = own[bytes - 1] = own[bytes / 2] = (char)bytes;
        /* It changes its place with one that another thread has left. */
        pthread_mutex_lock(&lock);
        char *other = shared[dice % 64];
        size_t other_bytes = sizes[dice % 64];
        shared[dice % 64] = own;
        sizes[dice % 64] = bytes;
        pthread_mutex_unlock(&lock);
        if (other != NULL) {
            CHECK(other[0] == (char)other_bytes && other[other_bytes - 1] == (char)other_bytes);
            if (dice % 5 == 0) {
                other = realloc(other, other_bytes * 2);
                CHECK(other != NULL && other[other_bytes / 2] == (char)other_bytes);
            }
            free(other);
        }
    }
    return NULL;
}

static void threads(void) {
    pthread_t all_threads[6];
    for (size_t at = 0; at < 6; at++) {
        CHECK(pthread_create(&all_threads[at], NULL, thread, (void *)(at + 1)) == 0);
    }
    for (size_t at = 0; at < 6; at++) {
        CHECK(pthread_join(all_threads[at], NULL) == 0);
    }
}

static volatile int stop;

static void *busy(void *unused) {
    (void)unused;
    while (!stop) {
        char *own = malloc(30000), *mapped = map(20 * PAGE);
        own[0] = mapped[0] = 1;
        free(own);
        CHECK(munmap(mapped, 20 * PAGE) == 0);
    }
    return NULL;
}

/* Copies of a process whose threads are in the middle of requests, each of which uses memory. */
static void forks(void) {
    pthread_t others[3];
    char *kept = malloc(100000);
    memset(kept, 1, 100000);
    for (size_t at = 0; at < 3; at++) {
        CHECK(pthread_create(&others[at], NULL, busy, NULL) == 0);
    }
    for (int time = 0; time < 100; time++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            CHECK(all(kept, 100000, 1));
            memset(kept, 2, 100000);
            for (size_t bytes = 100; bytes < 3000000; bytes *= 3) {
                char *own = calloc(bytes, 1);
                CHECK(own != NULL && all(own, bytes, 0));
                memset(own, 3, bytes);
                free(own);
                char *mapped = map(bytes + 64 * PAGE);
                CHECK(all(mapped, bytes, 0) && munmap(mapped, bytes + 64 * PAGE) == 0);
            }
            free(kept);
            exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(all(kept, 100000, 1));
    }
    stop = 1;
    for (size_t at = 0; at < 3; at++) {
        CHECK(pthread_join(others[at], NULL) == 0);
    }
    free(kept);
}

/* More than a small range has: the rest comes from elsewhere. */
static void much(void) {
    static char *blocks[600];
    for (size_t time = 0; time < 2; time++) {
        for (size_t at = 0; at < 600; at++) {
            size_t bytes = 300000 + at;
            blocks[at] = at % 2 == 0 ? malloc(bytes) : map(bytes);
            CHECK(blocks[at] != NULL);
            memset(blocks[at], (char)at, bytes);
        }
        for (size_t at = 0; at < 600; at++) {
            size_t bytes = 300000 + at;
            CHECK(all(blocks[at], bytes, (char)at));
            if (at % 2 == 0) {
                free(blocks[at]);
            } else {
                CHECK(munmap(blocks[at], bytes) == 0);
            }
        }
    }
}

/* What ends a program with the library, and says which address was wrong. */
static void misuse(int how) {
    char *volatile own = malloc(20000);
    free(how == 'i' ? own + 64 : own);
    free(own);
}

int main(int count, char **arguments) {
    const char *part = count > 1 ? arguments[1] : "all";
    if (strcmp(part, "twice") == 0 || strcmp(part, "inside") == 0) {
        misuse(part[0]);
        return 0;
    }
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"heap", heap}, {"maps", maps}, {"fixed", fixed}, {"moves", moves}, {"threads", threads}, {"forks", forks}, {"much", much}};
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) {
        if (strcmp(part, "all") == 0 || strcmp(part, parts[at].name) == 0) {
            parts[at].run();
        }
    }
    puts("all of it holds");
    return 0;
}
