/* The page of pages/hello.pl as a C program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    const char *query = getenv("QUERY_STRING");
    const char *name = query && strncmp(query, "name=", 5) == 0 ? query + 5 : "nobody";
    printf("Content-Type: text/plain\r\n\r\nHello, %s.\n", name);
    return 0;
}
