/* Streams: their buffers, modes, flags and positions, with input that each run reads anew. The run
 * ends by _exit with unwritten output, which must show nowhere. */
#define VICTIM_END
#include "maps.h"
#include <stdio_ext.h>
#include <wchar.h>

static char buffer[8192];

static void check(void)
{
    same("bytes waiting in stdout", (long long)__fpending(stdout), 0);
#ifdef __GLIBC__ /* musl's buffers are there from the start */
    same("stdout's buffer size", (long long)__fbufsize(stdout), 0);
    same("stderr's buffer size", (long long)__fbufsize(stderr), 0);
#endif
    same("stdout's orientation", fwide(stdout, 0), 0);
    same("stderr's orientation", fwide(stderr, 0), 0);
    same("stdin's end flag", feof(stdin), 0);
    same("stdin's error flag", ferror(stdin), 0);
    same("stdout's error flag", ferror(stdout), 0);
    const char *want = getenv("EXPECT_STDIN");
    if (want != NULL) {
        char line[64] = "";
        if (fgets(line, sizeof line, stdin) == NULL)
            fail("stdin gives no line");
        line[strcspn(line, "\n")] = 0;
        same_text("the first line of stdin", line, want);
    }
}

static void dirty(void)
{
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    fputs("left in stdout's buffer", stdout);
    fwide(stderr, 1);
    setvbuf(stderr, NULL, _IOFBF, 4096);
#ifdef __GLIBC__ /* musl writes it at once */
    fputws(L"left in stderr's buffer", stderr);
#endif
    while (getc(stdin) != EOF)
        ;
    ungetc('z', stdin);
    char name[40];
    snprintf(name, sizeof name, "left-open-%d", getpid());
    FILE *file = fopen(name, "w");
    if (file == NULL)
        fail("fopen %s: %s", name, strerror(errno));
    fputs("never written", file);
    unlink(name);
    FILE *closed = fopen("/dev/null", "r");
    fclose(closed);
}

static void end(void) { _exit(0); }
