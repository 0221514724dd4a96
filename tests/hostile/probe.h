/* What a program can find out about its memory and its task, as lines of text.
 *
 * Above the line "--" stands what is the same under plain exec, below it what depends on where the image lies. Left out is what
 * is another in each process: its number, random bytes, the stack's content, the page of the thread descriptor.
 */
#ifndef PROBE_H
#define PROBE_H

#define TEXT_BYTES ((size_t)1 << 19)

static char *out, *out_end, *text_of_proc;

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(out_end, (size_t)(out + TEXT_BYTES - out_end), format, list);
    va_end(list);
    out_end += n;
    *out_end++ = '\n';
}

/* Zeroes have the sum zero. */
static uint64_t hash(const volatile void *from, size_t bytes)
{
    const volatile uint64_t *words = from;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 8; i++)
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15, sum ^= sum >> 29;
    return sum;
}

/* The lines of a file of /proc that begin with one of these words; all lines without words. */
static void tell_file(const char *path, const char *const *words, size_t count)
{
    size_t length = read_text(path, text_of_proc, TEXT_BYTES);
    if (length == 0) {
        tell("%s cannot be read: %s", path, strerror(errno));
        return;
    }
    for (char *rest, *line = strtok_r(text_of_proc, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        size_t word = 0;
        while (word < count && strncmp(line, words[word], strlen(words[word])) != 0)
            word++;
        if (count == 0 || word < count)
            tell("%s %s", path, line);
    }
}

static void tell_own_memory(void)
{
    tell("constants %lx", hash(constants, sizeof constants));
    tell("data %lx", hash(data, sizeof data));
    tell("zeroes %lx", hash(zeroes, sizeof zeroes));
    tell("thread %lx %lx", (long)of_thread, (long)of_thread_zero);
}

static void tell_signals(void)
{
    sigset_t set;
    stack_t stack;
    uint64_t words[4];
    /* 32 and 33 are the libc's own: its posix_spawn ignores them in what it makes. */
    for (int number = 1; number <= 64; number++)
        if (number != 32 && number != 33 && syscall(SYS_rt_sigaction, number, NULL, words, 8) == 0 && (words[0] | words[1]) != 0)
            tell("signal %d is handled %lx %lx", number, words[0], words[1]);
    sigprocmask(SIG_BLOCK, NULL, &set);
    tell("blocked %lx", *(unsigned long *)&set);
    sigpending(&set);
    tell("pending %lx", *(unsigned long *)&set);
    sigaltstack(NULL, &stack);
    tell("signal stack %lx %x", (long)stack.ss_size, stack.ss_flags);
    for (int which = 0; which < 3; which++) {
        struct itimerval timer;
        syscall(SYS_getitimer, which, &timer);
        tell("timer %d %ld %ld", which, timer.it_value.tv_sec, timer.it_interval.tv_sec);
    }
}

static void tell_limits(void)
{
    for (int number = 0; number < 16; number++) {
        struct rlimit limit;
        getrlimit(number, &limit);
        tell("limit %d %lx %lx", number, limit.rlim_cur, limit.rlim_max);
    }
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t least, most;
    } scheduling;
    syscall(SYS_sched_getattr, 0, &scheduling, sizeof scheduling, 0);
    tell("policy %u %lx nice %d priority %u", scheduling.policy, scheduling.flags, scheduling.nice, scheduling.priority);
    tell("clamp %u %u slice %lu", scheduling.least, scheduling.most, scheduling.runtime);
    unsigned long cpus[16] = {0};
    syscall(SYS_sched_getaffinity, 0, sizeof cpus, cpus);
    tell("processors %lx", cpus[0]);
    tell("input and output %ld", syscall(SYS_ioprio_get, 1, 0));
}

static void tell_prctl(void)
{
    static const int plain[] = {PR_GET_DUMPABLE,    PR_GET_KEEPCAPS,    PR_GET_SECCOMP,     PR_GET_SECUREBITS,
                                PR_GET_TIMERSLACK,  PR_GET_TIMING,      PR_MCE_KILL_GET,    PR_GET_NO_NEW_PRIVS,
                                PR_GET_THP_DISABLE, PR_GET_IO_FLUSHER,  65 + 1 /* MDWE */,  68 /* memory merge */};
    static const int by_address[] = {PR_GET_PDEATHSIG, PR_GET_TSC, PR_GET_CHILD_SUBREAPER};
    for (size_t i = 0; i < WORDS(plain); i++)
        tell("prctl %d %d", plain[i], prctl(plain[i], 0, 0, 0, 0));
    for (size_t i = 0; i < WORDS(by_address); i++) {
        int value = -1;
        prctl(by_address[i], &value);
        tell("prctl %d %d", by_address[i], value);
    }
    for (int which = 0; which < 3; which++)
        tell("speculation %d %d", which, prctl(PR_GET_SPECULATION_CTRL, which, 0, 0, 0));
    tell("cpuid %ld", syscall(SYS_arch_prctl, 0x1011, 0));
    tell("personality %lx", syscall(SYS_personality, 0xffffffffUL));
    tell("membarrier %ld", syscall(SYS_membarrier, 1 << 9, 0, 0));
    char table[64];
    tell("descriptor table %ld", syscall(SYS_modify_ldt, 0, table, sizeof table));
    tell("session keyring %ld", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
    unsigned int control = 0;
    unsigned short control87 = 0;
    unsigned long flags;
    __asm__ volatile("stmxcsr %0\n fnstcw %1\n pushfq\n popq %2" : "=m"(control), "=m"(control87), "=r"(flags));
    tell("float %x %x flags %lx", control, control87, flags & 0x240400);
    unsigned long base = 1;
    syscall(SYS_arch_prctl, 0x1004, &base);
    tell("gs %lx", base);
}

static void tell_names(void)
{
    static const char *const links[] = {"exe", "cwd", "root", "ns/user", "ns/mnt", "ns/ipc", "ns/net", "ns/uts", "ns/pid_for_children"};
    for (size_t i = 0; i < WORDS(links); i++) {
        char path[64], target[512] = "";
        snprintf(path, sizeof path, "/proc/self/%s", links[i]);
        if (readlink(path, target, sizeof target - 1) < 0)
            snprintf(target, sizeof target, "%s", strerror(errno));
        tell("%s %s", path, target);
    }
    for (int fd = 0; fd < 256; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            tell("descriptor %d %d", fd, fcntl(fd, F_GETFD));
    tell("ids %d %d %d %d %d", getuid(), geteuid(), getgid(), getegid(), getppid());
    tell("group %d session %d", getpgrp() == getpid() ? 0 : getpgrp(), getsid(0) == getpid() ? 0 : getsid(0));
    mode_t mask = umask(0);
    umask(mask);
    tell("mask %o", mask);
}

static void tell_task(void)
{
    static const char *const status[] = {"Name",   "Umask",  "Tgid\t0", "TracerPid",  "Uid",     "Gid",     "Groups",       "VmLck",
                                         "VmPin",  "VmSwap\t0", "CoreDumping", "THP_enabled", "Threads", "SigPnd", "ShdPnd",
                                         "SigBlk", "CapInh",     "CapPrm",  "CapEff",  "CapBnd",       "CapAmb",
                                         "NoNewPrivs", "Seccomp", "Speculation", "Cpus_allowed:", "Mems_allowed:"};
    tell_file("/proc/self/status", status, WORDS(status));
    tell_file("/proc/self/coredump_filter", NULL, 0);
    tell_file("/proc/self/oom_score_adj", NULL, 0);
    tell_file("/proc/self/timerslack_ns", NULL, 0);
    tell_file("/proc/self/comm", NULL, 0);
    tell_file("/proc/self/cgroup", NULL, 0);
    char text[64];
    tell("timers %zu", read_text("/proc/self/timers", text, sizeof text));
    tell("children %zu", read_text("/proc/thread-self/children", text, sizeof text));
    tell_signals();
    tell_limits();
    tell_prctl();
    tell_names();
}

/* Whether a mapping's pages are another in each process, or are no memory. */
static int is_volatile(const char *name, uintptr_t low, uintptr_t high)
{
    return strstr(name, "[v") != NULL || strstr(name, "[stack]") != NULL || strstr(name, "memfd:regrow") != NULL ||
           (low <= (uintptr_t)out && (uintptr_t)out < high) || (low <= (uintptr_t)text_of_proc && (uintptr_t)text_of_proc < high);
}

static void tell_pages(uintptr_t low, uintptr_t high, int each)
{
    if (getenv("HOSTILE_LOOSE") != NULL)
        return;
    uintptr_t thread = (uintptr_t)page_of(__builtin_thread_pointer());
    uint64_t sum = 0;
    for (uintptr_t at = low; at < high; at += PAGE) {
        if (at == thread || at == thread + PAGE)
            continue;
        uint64_t one = hash((void *)at, PAGE);
        if (each && one != 0)
            tell("page %lx %lx", at, one);
        sum = sum * 31 + one;
    }
    tell("pages %lx", sum);
}

struct told {
    uintptr_t low, high;
    char perms[5], name[300], flags[100];
};

static void tell_mapping(const struct told *told)
{
    if (told->low == told->high)
        return;
    tell("mapping %lx-%lx %s %s:%s", told->low, told->high, told->perms, told->name, told->flags);
    if (told->perms[0] == 'r' && !is_volatile(told->name, told->low, told->high))
        tell_pages(told->low, told->high, told->perms[1] == 'w');
}

/* Tells of a mapping; neighbours that are alike are one. */
static void join_mapping(struct told *before, const struct told *next)
{
    if (before->high == next->low && strcmp(before->perms, next->perms) == 0 && strcmp(before->name, next->name) == 0 &&
        strcmp(before->flags, next->flags) == 0) {
        before->high = next->high;
        return;
    }
    tell_mapping(before);
    *before = *next;
}

static void tell_mappings(void)
{
    /* Whether a page was written once, and what is promised for a mapping, is no state of the program. */
    static const char *const ignored[] = {" sd", " ac"};
    struct told before = {0}, next = {0};
    read_text("/proc/self/smaps", text_of_proc, TEXT_BYTES);
    for (char *rest, *line = strtok_r(text_of_proc, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        int at = 0;
        struct told found = {0};
        if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %n", &found.low, &found.high, found.perms, &at) == 3) {
            snprintf(found.name, sizeof found.name, "%s", at > 0 ? line + at : "");
            next = found;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            snprintf(next.flags, sizeof next.flags, "%s", line + 8);
            for (size_t i = 0; i < WORDS(ignored); i++) {
                char *flag = strstr(next.flags, ignored[i]);
                if (flag != NULL)
                    memmove(flag, flag + 3, strlen(flag + 3) + 1);
            }
            join_mapping(&before, &next);
        }
    }
    tell_mapping(&before);
}

static void tell_space(void)
{
    char vector[1024];
    tell_mappings();
    size_t length = read_text("/proc/self/auxv", vector, sizeof vector);
    tell("auxiliary vector %lx", hash(vector, length & ~(size_t)7));
    tell("break %p", sbrk(0));
    void *head = NULL;
    size_t bytes = 0;
    syscall(SYS_get_robust_list, 0, &head, &bytes);
    tell("robust list %p %zu", head, bytes);
    tell("thread %p", __builtin_thread_pointer());
    void *page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("a page is mapped at %p", page);
    munmap(page, PAGE);
    for (size_t size = 16; size < 1 << 20; size *= 5) {
        void *block = malloc(size);
        memset(block, 0x5a, size);
        tell("%zu bytes are at %p", size, block);
        if (size % 2 == 0)
            free(block);
    }
    if (mprotect((void *)zeroes, sizeof zeroes, PROT_NONE) != 0 ||
        mprotect((void *)zeroes, sizeof zeroes, PROT_READ | PROT_WRITE) != 0)
        tell("zeroes cannot be protected: %s", strerror(errno));
    fill(zeroes, sizeof zeroes, 0x9e);
    tell("zeroes hold what is written %lx", hash(zeroes, sizeof zeroes));
}

/* As memory pressure does: pages that the kernel may drop are dropped. */
static void press(void)
{
    enum { PAGEOUT = 21 };
    read_text("/proc/self/maps", text_of_proc, TEXT_BYTES);
    for (char *rest, *line = strtok_r(text_of_proc, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        uintptr_t low, high;
        char perms[5];
        if (sscanf(line, "%lx-%lx %4s", &low, &high, perms) == 3 && perms[1] == 'w' && perms[3] == 'p' &&
            strstr(line, "[stack]") == NULL && !(low <= (uintptr_t)out && (uintptr_t)out < high))
            madvise((void *)low, high - low, PAGEOUT);
    }
}

__attribute__((noreturn)) static void probe(void)
{
    out = mmap(NULL, 2 * TEXT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    text_of_proc = out + TEXT_BYTES;
    out_end = out;
    if (getenv("HOSTILE_PRESS") != NULL)
        press();
    tell_own_memory();
    tell_task();
    tell("--");
    tell_space();
    write_all(1, out, (size_t)(out_end - out));
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

#endif
