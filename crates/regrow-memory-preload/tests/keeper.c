/* A program that frees much, and what it can see of the thread that gives it back: nothing that its C library tells, and none where it asks the
 * kernel for what only a process with one thread may have. Prints one line, and ends with 0, where all of it holds. The argument chooses. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                               \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

enum { BLOCKS = 600 };

/* Without the library there is never a second thread. */
static int served;

static int entries(const char *folder) {
    DIR *all = opendir(folder);
    CHECK(all != NULL);
    int count = 0;
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        count += entry->d_name[0] != '.';
    }
    closedir(all);
    return count;
}

static int threads(void) {
    return entries("/proc/self/task");
}

static void use_much(void) {
    char *blocks[BLOCKS];
    for (size_t at = 0; at < BLOCKS; at++) {
        size_t bytes = (at % 30 + 1) * 8192;
        CHECK((blocks[at] = malloc(bytes)) != NULL);
        memset(blocks[at], 1, bytes);
    }
    for (size_t at = 0; at < BLOCKS; at++) {
        free(blocks[at]);
    }
}

/* Has the keeper there, which stays for long: the periods are an hour. */
static void with_keeper(void) {
    for (int times = 0; served && threads() < 2; times++) {
        CHECK(times < 1000);
        use_much();
    }
    CHECK(threads() == (served ? 2 : 1));
}

static void single(void) {
    with_keeper();
    CHECK(__libc_single_threaded);
}

static volatile sig_atomic_t caught;
static volatile pid_t caught_by;

static void on_signal(int number) {
    (void)number;
    caught++;
    if (caught_by == 0) {
        caught_by = (pid_t)syscall(SYS_gettid);
    } else if (caught_by != (pid_t)syscall(SYS_gettid)) {
        _exit(3);
    }
}

/* Each signal of the process comes to the program's thread, also one that it waits for. */
static void signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    with_keeper();
    struct itimerval timer = {.it_interval = {.tv_usec = 2000}, .it_value = {.tv_usec = 2000}}, none = {0};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    for (int times = 0; times < 40 || caught < 80; times++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        use_much();
    }
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    CHECK(caught_by == getpid());
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && kill(getpid(), SIGUSR2) == 0);
    int number = 0;
    CHECK(sigwait(&set, &number) == 0 && number == SIGUSR2);
}

/* No number of a descriptor is taken, and a pipe whose end is closed has ended. */
static void descriptors(void) {
    int before = entries("/proc/self/fd"), ends[2];
    for (int times = 0; times < 15; times++) {
        CHECK(pipe(ends) == 0);
        with_keeper();
        CHECK(entries("/proc/self/fd") == before + 2);
        CHECK(close(ends[1]) == 0);
        char byte;
        CHECK(read(ends[0], &byte, 1) == 0 && close(ends[0]) == 0);
        int next = open("/dev/null", O_RDONLY);
        CHECK(next == ends[0] && close(next) == 0);
    }
}

static int waited(pid_t child) {
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static int child(void *unused) {
    (void)unused;
    alarm(30);
    CHECK(threads() == 1);
    use_much();
    return 7;
}

/* A copy has one thread, and memory; and so has the program, which has one at the moment of the copy. */
static void copies(void) {
    for (int times = 0; times < 20; times++) {
        with_keeper();
        pid_t copy = fork();
        CHECK(copy == 0 || threads() == 1);
        if (copy == 0) {
            child(NULL);
            with_keeper();
            _exit(7);
        }
        CHECK(waited(copy) == 7 << 8);
    }
    static char stack[1 << 18];
    with_keeper();
    CHECK(waited(clone(child, stack + sizeof stack, SIGCHLD, NULL)) == 7 << 8);
    with_keeper();
    pid_t copy = _Fork();
    if (copy == 0) {
        _exit(child(NULL));
    }
    CHECK(waited(copy) == 7 << 8);
    with_keeper();
    copy = vfork();
    if (copy == 0) {
        execlp("true", "true", (char *)NULL);
        _exit(1);
    }
    CHECK(waited(copy) == 0);
}

/* What only a process with one thread may do. */
static void namespaces(void) {
    with_keeper();
    if (unshare(CLONE_NEWUSER) != 0) {
        /* The administrator forbids it; a second thread would be EINVAL. */
        CHECK(errno == EPERM || errno == ENOSPC);
        return;
    }
    CHECK(threads() == 1);
    with_keeper();
    CHECK(unshare(CLONE_NEWNS) == 0 && threads() == 1);
    int own = open("/proc/self/ns/mnt", O_RDONLY);
    with_keeper();
    CHECK(own >= 0 && setns(own, CLONE_NEWNS) == 0 && threads() == 1);
    use_much();
}

/* What is given up is given up by each thread. */
static void users(void) {
    if (getuid() != 0) {
        return;
    }
    gid_t group = 12345;
    with_keeper();
    CHECK(setgroups(1, &group) == 0 && threads() == 1);
    with_keeper();
    CHECK(setresgid(group, group, group) == 0 && threads() == 1);
    with_keeper();
    CHECK(setuid(12345) == 0 && threads() == 1 && setuid(0) == -1);
    use_much();
}

/* Once the program says that it is to be restricted there is no thread again. */
static void restricted(void) {
    with_keeper();
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && threads() == 1);
    use_much();
    use_much();
    CHECK(threads() == 1);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    /* Any call but read, write and exit would end it by SIGKILL. */
    CHECK(write(1, "all of it holds\n", 16) == 16);
    syscall(SYS_exit, 0);
}

static void *thread(void *unused) {
    use_much();
    return unused;
}

/* Threads come and go, and the last one to end ends the process. */
static void others(void) {
    for (int times = 0; times < 15; times++) {
        pthread_t all[4];
        for (size_t at = 0; at < 4; at++) {
            CHECK(pthread_create(&all[at], NULL, thread, NULL) == 0);
        }
        for (size_t at = 0; at < 4; at++) {
            CHECK(pthread_join(all[at], NULL) == 0);
        }
    }
    with_keeper();
    CHECK(write(1, "all of it holds\n", 16) == 16);
    pthread_exit(NULL);
}

static void executes(void) {
    with_keeper();
    execlp("echo", "echo", "all of it holds", (char *)NULL);
}

/* Frees much, says so, and sleeps until it may end. */
static void sleeps(void) {
    use_much();
    use_much();
    puts("free");
    fflush(stdout);
    CHECK(getchar() == EOF);
    exit(0);
}

int main(int count, char **arguments) {
    served = getenv("LD_PRELOAD") != NULL;
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"single", single},         {"signals", signals},   {"descriptors", descriptors},
                 {"copies", copies},         {"namespaces", namespaces}, {"users", users},
                 {"restricted", restricted}, {"others", others},     {"executes", executes},
                 {"sleeps", sleeps}};
    for (size_t at = 0; at < sizeof parts / sizeof *parts; at++) {
        if (count > 1 && strcmp(arguments[1], parts[at].name) == 0) {
            parts[at].run();
            puts("all of it holds");
            return 0;
        }
    }
    return 2;
}
