// Creates a child at each of a thousand places.
#include <sys/wait.h>
#include <unistd.h>

#define TEN(what) what what what what what what what what what what

static int wrong;

static void end_of(pid_t child) {
    int status = 0;
    wrong |= child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7;
}

#define CREATE                 \
    {                          \
        pid_t child = vfork(); \
        if (child == 0) {      \
            _exit(7);          \
        }                      \
        end_of(child);         \
    }

int main(void) {
    TEN(TEN(TEN(CREATE)))
    return wrong;
}
