/* What the C library remembers between calls: generators, locale, time zone, exit lists. */
#include "maps.h"
#include <dlfcn.h>
#include <getopt.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <search.h>
#include <time.h>
#include <wchar.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static volatile int once_count;
static void count_once(void) { once_count++; }

static void check(void)
{
    long first = rand();
    srand(1);
    same("rand's first number", first, rand());
    first = lrand48();
    same("lrand48's first number", first, 0);
    same_text("the locale", setlocale(LC_ALL, NULL), "C");
    same("MB_CUR_MAX", (long long)MB_CUR_MAX, 1);
    same("optind", optind, 1);
    same("opterr", opterr, 1);
    same("timezone, before anybody asked for the time", timezone, 0);
    same("mbrlen with a state of its own", (long long)mbrlen("a", 1, NULL), 1);
    same("calls of a once function at first", once_count, 0);
    pthread_once(&once, count_once);
    same("calls of a once function", once_count, 1);
    if (dlerror() != NULL)
        fail("dlerror has an error");
    if (getenv("TZ") != NULL)
        fail("TZ is set");
    same("signgam", signgam, 0);
    ENTRY entry = {(char *)"stale", NULL};
    if (hcreate(8) == 0)
        fail("a hash table is there");
    if (hsearch(entry, FIND) != NULL)
        fail("an entry is in the hash table");
    hdestroy();
}

static void never(void) {}

static void dirty(void)
{
    srand(77);
    srandom(78);
    srand48(79);
    setlocale(LC_ALL, "C.UTF-8");
    setenv("TZ", "XYZ-5", 1);
    tzset();
    mbrlen("\xe2", 1, NULL);
    char *const words[] = {(char *)"x", (char *)"-a", (char *)"-b", NULL};
    opterr = 0;
    getopt(3, words, "ab");
    getopt(3, words, "ab");
    if (dlopen("/no/such/object", RTLD_NOW) != NULL)
        fail("an object that is not there");
    lgamma(-0.5);
    hcreate(64);
    hsearch((ENTRY){(char *)"stale", NULL}, ENTER);
    for (int i = 0; i < 100; i++)
        atexit(never);
}
