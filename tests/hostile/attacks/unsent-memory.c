/* Sends its memory without copying it (MSG_ZEROCOPY), and ends at once. */
#include "hostile.h"
#include <arpa/inet.h>
#include <netinet/in.h>

static void strike(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listens = MUST(socket(AF_INET, SOCK_STREAM, 0)), sends = MUST(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
    MUST(bind(listens, (void *)&address, sizeof address));
    MUST(listen(listens, 1));
    MUST(getsockname(listens, (void *)&address, &length));
    MUST(connect(sends, (void *)&address, sizeof address));
    if (setsockopt(sends, SOL_SOCKET, 60 /* SO_ZEROCOPY */, &one, sizeof one) != 0)
        LACK("SO_ZEROCOPY");
    memset((void *)zeroes, 'k', sizeof zeroes);
    MUST(send(sends, (void *)zeroes, 64 * PAGE, 0x4000000 /* MSG_ZEROCOPY */ | MSG_DONTWAIT));
}
