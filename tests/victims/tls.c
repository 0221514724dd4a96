/* Thread-local data: of the main thread, of a later thread, and thread-specific keys. */
#include "maps.h"
#include <pthread.h>

static __thread volatile int number = 42;
static __thread volatile uint64_t block[4096];
static __thread const char *volatile word = "fresh";
static pthread_key_t key;

static void check_own(const char *whose)
{
    if (number != 42 || strcmp(word, "fresh") != 0)
        fail("initialised TLS of %s: %d, '%.20s'", whose, number, word);
    expect_words(block, sizeof block, 0, "zero TLS");
}

static void dirty_own(void)
{
    number = 7;
    word = "stale";
    fill_words(block, sizeof block, 0xdead);
}

static void *other_thread(void *unused)
{
    check_own("another thread");
    if (pthread_getspecific(key) != NULL)
        fail("a thread-specific value is set in another thread");
    dirty_own();
    return unused;
}

static void check(void)
{
    same("errno at main", victim_errno, 0);
    same("errno's first value", errno, 0);
    check_own("the main thread");
    MUST(-pthread_key_create(&key, NULL));
    if (key > 4)
        fail("the first thread-specific key is %u", key);
    if (pthread_getspecific(key) != NULL)
        fail("a new thread-specific key has a value");
    pthread_t thread;
    same("pthread_create", pthread_create(&thread, NULL, other_thread, NULL), 0);
    same("pthread_join", pthread_join(thread, NULL), 0);
    victim_errno = errno;
}

static void dirty(void)
{
    dirty_own();
    pthread_setspecific(key, "stale");
    for (int i = 0; i < 40; i++)
        if (pthread_key_create(&key, NULL) == 0)
            pthread_setspecific(key, "stale");
    errno = victim_errno = EILSEQ;
}
