/* What must never come twice: prints numbers that two runs have only by a fault. The argument says
 * which: getrandom, arc4random, at-random, canary, tmp-names, generator. */
#include "maps.h"
#include <sys/auxv.h>
#include <sys/random.h>
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* A generator as careful programs keep one: seeded before main, in memory that a new process finds
 * wiped, so that it seeds itself anew. */
static struct generator {
    uint64_t seeded, state[4];
} *generator;

static uint64_t next(void)
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

__attribute__((constructor)) static void construct(void)
{
    generator = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    MUST(madvise(generator, PAGE, MADV_WIPEONFORK));
    next();
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
        words[0] = next();
    }
    if (words[0] == 0)
        fail("nothing random for %s", what);
    printf("%016lx %016lx %016lx\n", words[0], words[1], words[2]);
}

static void dirty(void)
{
    for (int i = 0; i < 5; i++)
        next();
}
