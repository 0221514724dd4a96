/* What must never come twice: prints numbers that two runs have only by a fault. The argument says
 * which: getrandom, arc4random, at-random, canary, tmp-names, generator, droppable. With PLAIN nothing
 * random is drawn before main, so that the program can be kept there. */
#include "maps.h"
#include <sys/auxv.h>
#include <sys/random.h>
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif
#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 0x08
#endif

/* Generators as careful programs keep them: seeded before main, in memory that a new process finds
 * wiped (or that the kernel may drop at any time), so that they seed themselves anew. */
struct generator {
    uint64_t seeded, state[4];
};
static struct generator *wiped, *droppable;

static uint64_t next(struct generator *generator)
{
    if (!generator->seeded) {
        MUST(getrandom(generator->state, sizeof generator->state, 0));
        generator->seeded = 1;
    }
    uint64_t *s = generator->state, result = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

#ifndef PLAIN
__attribute__((constructor))
#endif
static void construct(void)
{
    const int rw = PROT_READ | PROT_WRITE;
    wiped = MUST(mmap(NULL, PAGE, rw, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MUST(madvise(wiped, PAGE, MADV_WIPEONFORK));
    next(wiped);
    droppable = mmap(NULL, PAGE, rw, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
    if (droppable != MAP_FAILED)
        next(droppable);
}

static uint64_t canary(void)
{
    uint64_t value;
    __asm__("mov %%fs:0x28, %0" : "=r"(value));
    return value;
}

static void tmp_names(void)
{
    char template[] = "unique-XXXXXX", name[40];
    close(MUST(mkstemp(template)));
    unlink(template);
    snprintf(name, sizeof name, "unique-%d", getpid());
    close(MUST(open(name, O_RDWR | O_CREAT | O_EXCL, 0600)));
    unlink(name);
    printf("%s %s\n", template, name);
}

static volatile int used;

static void check(void)
{
    same("the earlier uses", used++, 0);
    if (wiped == NULL)
        construct();
    const char *what = victim_argc > 1 ? victim_argv[1] : "getrandom";
    uint64_t words[4] = {0};
    if (strcmp(what, "tmp-names") == 0) {
        tmp_names();
        return;
    } else if (strcmp(what, "getrandom") == 0) {
        MUST(getrandom(words, sizeof words, 0));
#ifdef __GLIBC__
    } else if (strcmp(what, "arc4random") == 0) {
        arc4random_buf(words, sizeof words);
#endif
    } else if (strcmp(what, "at-random") == 0) {
        memcpy(words, (void *)getauxval(AT_RANDOM), 16);
    } else if (strcmp(what, "canary") == 0) {
        words[0] = canary();
    } else if (strcmp(what, "generator") == 0) {
        words[0] = next(wiped);
    } else if (strcmp(what, "droppable") == 0) {
        if (droppable == MAP_FAILED)
            skip("the kernel has no MAP_DROPPABLE");
        words[0] = next(droppable);
    }
    if (words[0] == 0)
        fail("nothing random for %s", what);
    printf("%016lx %016lx %016lx\n", words[0], words[1], words[2]);
}

static void dirty(void)
{
    for (int i = 0; i < 5; i++)
        next(wiped);
}
