/*
 * Asks a web server many times for a page, as ab does: each request over a connection of its own, by HTTP/1.0, timed from before the
 * connection is made to the end of the reply. Other than ab it looks at every reply, its status and all of its body.
 *
 *     asks PORT REQUESTS AT_A_TIME PATH BODY
 *
 * # in PATH and BODY stands for the number of the request. The first line of output is the seconds that all have taken, then there is
 * a line for each request: the microseconds from the start of all to its start, and those that it has taken.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_AT_A_TIME = 64, MOST_BYTES = 16384, PATIENCE_MS = 120000 };

/* A request that is under way. */
struct asked {
    int socket;
    long number;
    size_t received;
    char reply[MOST_BYTES];
};

static struct asked slots[MOST_AT_A_TIME];
static struct sockaddr_in server = {.sin_family = AF_INET};
static const char *path, *body;
static double *starts, *ends;
static int events;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void fail(const char *what, const char *reply)
{
    fprintf(stderr, "asks: %s%s%s\n", what, *reply ? ": " : "", *reply ? reply : errno ? strerror(errno) : "");
    exit(1);
}

/* Writes a text with the number of a request in place of each #. */
static void fill(char *to, size_t room, const char *text, long number)
{
    size_t at = 0;
    for (; *text && at + 24 < room; text++) {
        if (*text == '#')
            at += (size_t)snprintf(to + at, room - at, "%ld", number);
        else
            to[at++] = *text;
    }
    to[at] = 0;
}

static void start(struct asked *slot, long number)
{
    char filled[1024], request[2048];
    fill(filled, sizeof filled, path, number);
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.0\r\nHost: 127.0.0.1:%d\r\nUser-Agent: asks\r\nAccept: */*\r\n\r\n", filled,
                          ntohs(server.sin_port));
    slot->number = number;
    slot->received = 0;
    starts[number] = now();
    slot->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* On loopback the connection is there at once, and a request fits into the socket. */
    if (slot->socket < 0 || connect(slot->socket, (struct sockaddr *)&server, sizeof server) < 0)
        fail("no connection", "");
    if (send(slot->socket, request, (size_t)length, MSG_NOSIGNAL) != length)
        fail("a request cannot be sent", "");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = slot};
    if (epoll_ctl(events, EPOLL_CTL_ADD, slot->socket, &event) < 0)
        fail("epoll", "");
}

static void check(struct asked *slot)
{
    char expected[1024];
    fill(expected, sizeof expected, body, slot->number);
    slot->reply[slot->received] = 0;
    if (strncmp(slot->reply, "HTTP/1.", 7) != 0 || strncmp(slot->reply + 8, " 200 ", 5) != 0)
        fail("not 200", slot->received ? slot->reply : "no reply");
    char *found = strstr(slot->reply, "\r\n\r\n");
    if (!found || strcmp(found + 4, expected) != 0)
        fail("not what was asked for", slot->reply);
}

/* Takes what has come. Whether that was the end. */
static int take(struct asked *slot)
{
    ssize_t got = recv(slot->socket, slot->reply + slot->received, MOST_BYTES - 1 - slot->received, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got < 0)
        fail("a reply is broken off", "");
    slot->received += (size_t)got;
    if (got > 0 && slot->received < MOST_BYTES - 1)
        return 0;
    ends[slot->number] = now();
    close(slot->socket);
    errno = 0;
    check(slot);
    return 1;
}

int main(int count, char **words)
{
    if (count != 6)
        fail("asks PORT REQUESTS AT_A_TIME PATH BODY", "");
    long requests = atol(words[2]), at_a_time = atol(words[3]), next = 0, done = 0;
    if (requests < 1 || at_a_time < 1 || at_a_time > MOST_AT_A_TIME)
        fail("so many cannot be asked", words[3]);
    server.sin_port = htons((unsigned short)atoi(words[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    path = words[4];
    body = words[5];
    starts = calloc((size_t)requests, sizeof *starts);
    ends = calloc((size_t)requests, sizeof *ends);
    events = epoll_create1(EPOLL_CLOEXEC);
    if (!starts || !ends || events < 0)
        fail("no memory", "");
    double begin = now();
    for (; next < at_a_time && next < requests; next++)
        start(&slots[next], next);
    while (done < requests) {
        struct epoll_event ready[MOST_AT_A_TIME];
        int number = epoll_wait(events, ready, MOST_AT_A_TIME, PATIENCE_MS);
        if (number <= 0)
            fail("no reply comes", "");
        for (int i = 0; i < number; i++) {
            if (!take(ready[i].data.ptr))
                continue;
            done++;
            if (next < requests)
                start(ready[i].data.ptr, next++);
        }
    }
    printf("%.6f\n", (now() - begin) / 1e6);
    for (long i = 0; i < requests; i++)
        printf("%.1f %.1f\n", starts[i] - begin, ends[i] - starts[i]);
    return 0;
}
