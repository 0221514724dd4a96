/*
 * Writes without an end, or as much as the query says in bytes, after it has noted its pid. A client that goes away ends it, by
 * SIGPIPE or by what the server does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int note(void)
{
    char path[4096];
    const char *notes = getenv("REGROW_TEST_NOTES");
    if (!notes || snprintf(path, sizeof path, "%s/pids", notes) >= (int)sizeof path)
        return -1;
    FILE *file = fopen(path, "a");
    if (!file)
        return -1;
    fprintf(file, "%d\n", getpid());
    return fclose(file);
}

int main(void)
{
    static char piece[65536];
    const char *query = getenv("QUERY_STRING");
    unsigned long long left = query && *query ? strtoull(query, NULL, 10) : ~0ULL;
    if (note())
        return 1;
    memset(piece, 'e', sizeof piece);
    printf("Content-Type: application/octet-stream\n\n");
    while (left > 0) {
        size_t part = left < sizeof piece ? (size_t)left : sizeof piece;
        if (fwrite(piece, 1, part, stdout) != part)
            return 1;
        left -= part;
    }
    return fflush(stdout) != 0;
}
