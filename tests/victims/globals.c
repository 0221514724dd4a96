/* Initialised data, zero data, relocated pointers and what constructors did to them. */
#include "maps.h"

#define WORDS 8192

static volatile uint64_t data[WORDS] = {[0 ... WORDS - 1] = 0x600dda7a600dda7a};
static volatile uint64_t zero[WORDS * 16];
static volatile uint64_t sparse[WORDS * 64]; /* 4 MiB, of which few pages are ever touched */
static const char *volatile names[] = {"alpha", "beta", "gamma"};
static void (*volatile hook)(void) = end;
static volatile int constructed, destructed, prepared = 1;

__attribute__((constructor)) static void construct(void)
{
    constructed++;
    prepared *= 3;
    data[WORDS / 2] = 5;
}

__attribute__((destructor)) static void destruct(void)
{
    if (++destructed != 1)
        fail("the destructor has run %d times", destructed);
}

static int calls(void)
{
    static volatile int count;
    return ++count;
}

static void check(void)
{
    same("constructor count", constructed, 1);
    same("destructor count", destructed, 0);
    same("value made by the constructor", prepared, 3);
    same("data word of the constructor", (long long)data[WORDS / 2], 5);
    for (int i = 0; i < WORDS; i++)
        if (i != WORDS / 2 && data[i] != 0x600dda7a600dda7a)
            fail("data word %d is %#lx", i, data[i]);
    expect_words(zero, sizeof zero, 0, "bss");
    for (int i = 0; i < WORDS * 64; i += WORDS)
        if (sparse[i] != 0 || sparse[i + 513] != 0)
            fail("sparse bss near word %d is not zero", i);
    same_text("names[2]", names[2], "gamma");
    if (hook != end)
        fail("a function pointer in the data differs");
    same("first call", calls(), 1);
}

static void dirty(void)
{
    fill_words(data, sizeof data, 0xdead);
    fill_words(zero, sizeof zero, 0xdead);
    for (int i = 0; i < WORDS * 64; i += WORDS)
        sparse[i] = sparse[i + 513] = 0xdead;
    names[0] = names[2] = "stale";
    constructed = 9;
    prepared = 0;
    calls();
}
