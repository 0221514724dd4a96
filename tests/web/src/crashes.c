/* Dies in the way that the query says: before its header, within it, or behind it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    const char *query = getenv("QUERY_STRING");
    if (!query)
        return 1;
    if (strcmp(query, "before")) {
        printf("Content-Type: text/plain\n");
        if (strcmp(query, "within"))
            printf("\nthe beginning of a body\n");
        fflush(stdout);
    }
    if (!strcmp(query, "kill"))
        raise(SIGKILL);
    volatile int *nothing = NULL;
    return *nothing;
}
