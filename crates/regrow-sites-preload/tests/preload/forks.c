// Forks so many children at one place, and waits for each.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    for (int round = count == 2 ? atoi(words[1]) : 0; round > 0; round--) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            _exit(7);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 7) {
            return 1;
        }
    }
    return 0;
}
