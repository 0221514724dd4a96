/*
 * Gives back the body of a request as it came, under the type that it came with. The whole body is read before anything is
 * written, unless the query asks for both at the same time, which is more than most servers can take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_all(const char *at, size_t left)
{
    while (left > 0) {
        ssize_t done = write(STDOUT_FILENO, at, left);
        if (done < 0)
            return -1;
        at += done;
        left -= (size_t)done;
    }
    return 0;
}

/* Copies a piece as soon as it has come. */
static int copy(void)
{
    static char piece[65536];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
        if (got <= 0)
            return got < 0;
        if (write_all(piece, (size_t)got) < 0)
            return 1;
    }
}

/* Reads everything, then writes it, behind the head. */
static int read_first(const char *head, size_t head_length)
{
    size_t room = 1 << 16, length = 0;
    char *body = malloc(room);
    while (body) {
        ssize_t got = read(STDIN_FILENO, body + length, room - length);
        if (got < 0)
            return 1;
        if (got == 0)
            return write_all(head, head_length) < 0 || write_all(body, length) < 0;
        length += (size_t)got;
        if (length == room)
            body = realloc(body, room *= 2);
    }
    return 1;
}

int main(void)
{
    char head[1024];
    const char *type = getenv("CONTENT_TYPE"), *query = getenv("QUERY_STRING");
    int length = snprintf(head, sizeof head, "Content-Type: %s\r\nX-Echo: yes\r\n\r\n",
                          type && *type ? type : "application/octet-stream");
    if (length < 0 || (size_t)length >= sizeof head)
        return 1;
    if (!query || strcmp(query, "at-once"))
        return read_first(head, (size_t)length);
    return write_all(head, (size_t)length) < 0 || copy();
}
