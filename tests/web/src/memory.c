/*
 * A program whose memory tells whether it is its first run: statics, heap and a thread's variable are looked at before they are
 * written to. Prints what it found, and its arguments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int started;
static char table[1 << 16];
static _Thread_local int own = 7;

static int dirty(const char *at, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (at[i])
            return 1;
    return 0;
}

static void last(void)
{
    printf("last word, started %d\n", started);
}

int main(int argc, char **argv)
{
    char *heap = calloc(1, 1 << 20);
    if (!heap || atexit(last))
        return 1;
    printf("Content-Type: text/plain\n\n");
    printf("started %d, table %s, heap %s, thread's own %d, arguments %d, name %s\n", started,
           dirty(table, sizeof table) ? "dirty" : "clean", dirty(heap, 1 << 20) ? "dirty" : "clean", own, argc - 1,
           strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0]);
    started++;
    own++;
    memset(table, 1, sizeof table);
    memset(heap, 1, 1 << 20);
    return 0;
}
