/* Executes its own program, which dirties its own memory. */
#include "hostile.h"

static void strike(void)
{
    if (getenv("HOSTILE_AGAIN") != NULL) {
        fill(zeroes, sizeof zeroes, 0x57414c45);
        return;
    }
    setenv("HOSTILE_AGAIN", "1", 1);
    close(1);
    MUST(open("/dev/null", O_WRONLY));
    data[0] = 0x57414c45;
    execl("/proc/self/exe", "executes-itself", "attack", "alone", NULL);
    end_with(1, "exec");
}
