/* Writes all bytes there are many times over, in pieces of odd lengths, with the length said ahead. */
#include <stdio.h>

enum { LENGTH = 300007 };

int main(void)
{
    static unsigned char body[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        body[i] = (unsigned char)(i + i / 256);
    printf("Content-Type: application/octet-stream\nContent-Length: %d\n\n", LENGTH);
    for (size_t at = 0, part = 1; at < LENGTH; at += part, part = part * 3 % 7919 + 1) {
        if (part > LENGTH - at)
            part = LENGTH - at;
        if (fwrite(body + at, 1, part, stdout) != part || fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
