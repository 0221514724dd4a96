/* A program that never reaches main: its constructor ends it, with status 3. */
#define VICTIM_END
#include "maps.h"

static volatile int entered;

static void check(void) { same("entered", entered, 0); }
static void dirty(void) { entered = 1; }
static void end(void) { _exit(3); }

__attribute__((constructor)) static void construct(int argc, char **argv, char **envp)
{
    main(argc, argv, envp);
}
