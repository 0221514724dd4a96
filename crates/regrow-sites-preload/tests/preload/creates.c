// Creates children at places with known names: creates WAY COUNT.
//
// Each place is a function `by_WAY`, which `middle` calls, which `outer` calls. A child ends with status 7, or is /bin/true or a shell.
#include <errno.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define PLACE __attribute__((noinline, noclone)) static
// What is behind a call, so that the call is no jump.
#define STAY __asm__ volatile("" ::: "memory")

static char *const TRUE_WORDS[] = {"true", NULL};

static void fail(const char *what) {
    fprintf(stderr, "creates: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "creates: wrong: %s\n", what);
        exit(3);
    }
}

static void end_of(pid_t child, int status) {
    int found = 0;
    if (child < 0 || waitpid(child, &found, 0) != child) {
        fail("waitpid");
    }
    expect(WIFEXITED(found) && WEXITSTATUS(found) == status, "status");
}

PLACE void by_fork(void) {
    pid_t child = fork();
    if (child == 0) {
        _exit(7);
    }
    end_of(child, 7);
}

PLACE void by_vfork(void) {
    volatile int kept = 5;
    pid_t child = vfork();
    if (child == 0) {
        kept = 6;
        execv("/bin/true", TRUE_WORDS);
        _exit(7);
    }
    expect(kept == 6, "the memory of the child of vfork");
    end_of(child, 0);
}

// The child calls deep functions on its parent's stack before it ends.
__attribute__((noinline)) static int deep(int depth) {
    volatile char room[512];
    memset((char *)room, depth, sizeof room);
    return depth == 0 ? room[9] : deep(depth - 1) + room[7];
}

PLACE void by_vfork_deep(void) {
    pid_t child = vfork();
    if (child == 0) {
        _exit(deep(40) >= 0 ? 7 : 8);
    }
    end_of(child, 7);
}

static int in_clone(void *argument) {
    return *(int *)argument;
}

PLACE void by_clone(void) {
    static char stack[65536] __attribute__((aligned(16)));
    int status = 7;
    pid_t parent_number = 0;
    pid_t child = clone(in_clone, stack + sizeof stack, SIGCHLD | CLONE_PARENT_SETTID, &status, &parent_number);
    expect(child == parent_number, "the number that clone has written");
    end_of(child, 7);
}

PLACE void by_spawn(void) {
    pid_t child = -1;
    errno = 77;
    expect(posix_spawn(&child, "/bin/true", NULL, NULL, TRUE_WORDS, environ) == 0 && errno == 77, "posix_spawn");
    end_of(child, 0);
}

PLACE void by_spawnp(void) {
    pid_t child = -1;
    expect(posix_spawnp(&child, "true", NULL, NULL, TRUE_WORDS, environ) == 0, "posix_spawnp");
    end_of(child, 0);
}

PLACE void by_system(void) {
    int status = system("exit 3");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "system");
}

PLACE void by_popen(void) {
    char line[16] = "";
    FILE *output = popen("echo hello", "r");
    expect(output != NULL && fgets(line, sizeof line, output) != NULL && strcmp(line, "hello\n") == 0, "popen");
    expect(pclose(output) == 0, "pclose");
}

PLACE void by_forkpty(void) {
    int master = -1;
    pid_t child = forkpty(&master, NULL, NULL, NULL);
    if (child == 0) {
        _exit(isatty(0) ? 7 : 8);
    }
    end_of(child, 7);
    close(master);
}

static void *in_thread(void *argument) {
    (void)argument;
    by_fork();
    return NULL;
}

// Of a thread with the smallest stack.
PLACE void by_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, in_thread, NULL) != 0 || pthread_join(thread, NULL) != 0) {
        fail("a thread");
    }
}

static void in_handler(int signal_number) {
    (void)signal_number;
    int kept = errno;
    by_fork();
    errno = kept;
}

// Of a signal's handler, on a stack of its own.
PLACE void by_handler(void) {
    static char room[16384];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0 || raise(SIGUSR1) != 0) {
        fail("a signal");
    }
}

static void *in_wait(void *argument) {
    waitpid((pid_t)(intptr_t)argument, NULL, 0);
    return NULL;
}

// A thread that waits for a child is cancelled: it ends in the midst of the library.
PLACE void by_cancelled(void) {
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(7);
    }
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, in_wait, (void *)(intptr_t)child) != 0) {
        fail("a thread");
    }
    usleep(2000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    expect(result == PTHREAD_CANCELED, "the end of a thread that was cancelled");
    kill(child, SIGKILL);
    expect(waitpid(child, NULL, 0) == child, "waitpid");
}

// Each way to wait.
PLACE void by_waits(void) {
    struct rusage usage;
    siginfo_t info;
    int status = 0;
    for (int way = 0; way < 5; way++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(7);
        }
        pid_t found = child;
        switch (way) {
        case 0: found = wait(&status); break;
        case 1: found = wait3(&status, 0, &usage); break;
        case 2: found = wait4(child, &status, 0, NULL); break;
        case 3: found = waitpid(child, NULL, 0); break;
        default:
            expect(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child, "waitid");
            expect(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_status == 7, "waitid");
        }
        expect(found == child && (way > 2 || WEXITSTATUS(status) == 7), "a way to wait");
    }
    errno = 0;
    expect(waitpid(-1, &status, 0) == -1 && errno == ECHILD, "no child is left");
}

// What fails, fails as it does.
PLACE void by_failing(void) {
    pid_t child = 99;
    expect(posix_spawn(&child, "/nowhere", NULL, NULL, TRUE_WORDS, environ) == ENOENT, "posix_spawn of nothing");
    errno = 0;
    expect(execv("/nowhere", TRUE_WORDS) == -1 && errno == ENOENT, "execv of nothing");
    errno = 0;
    expect(clone(in_clone, NULL, SIGCHLD, NULL) == -1 && errno == EINVAL, "clone without a stack");
    expect(system(NULL) != 0, "is there a shell");
}

static const struct {
    const char *name;
    void (*place)(void);
} WAYS[] = {
    {"fork", by_fork},         {"vfork", by_vfork},   {"vfork_deep", by_vfork_deep}, {"clone", by_clone},
    {"spawn", by_spawn},       {"spawnp", by_spawnp}, {"system", by_system},         {"popen", by_popen},
    {"forkpty", by_forkpty},   {"thread", by_thread}, {"handler", by_handler},       {"cancelled", by_cancelled},
    {"waits", by_waits},       {"failing", by_failing},
};

PLACE void middle(void (*place)(void)) {
    place();
    STAY;
}

PLACE void outer(void (*place)(void)) {
    middle(place);
    STAY;
}

int main(int count, char **words) {
    for (size_t way = 0; count == 3 && way < sizeof WAYS / sizeof *WAYS; way++) {
        if (strcmp(WAYS[way].name, words[1]) == 0) {
            for (int round = atoi(words[2]); round > 0; round--) {
                outer(WAYS[way].place);
            }
            puts("done");
            return 0;
        }
    }
    fputs("usage: creates WAY COUNT\n", stderr);
    return 1;
}
