/* What the programs tell the collector: records in a ring. `src/record.rs` reads them; the sizes are asserted on both sides. */
#ifndef REGROW_RECORDS_H
#define REGROW_RECORDS_H

/* The most of a stack that is told, in bytes, from its pointer upwards. */
#define STACK_BYTES 4096
/* How much of that is told before the memory that the parent has put aside in its own frame as a stack for the child, which is left out. */
#define NEAR_BYTES 1024
/* The most memory that is left out. */
#define FARTHEST_BYTES (64 << 10)
/* The most of a path that is told: its components with a zero behind each, the last component first. */
#define PATH_BYTES 512
/* The longest component with its zero. */
#define COMPONENT_BYTES 128

/* The most of the arguments of a program that is told, in bytes, each argument with its zero. */
#define ARGUMENT_BYTES 1024

enum kind {
    CREATED = 1,
    MAPPING = 2,
    IMAGE = 3,
    EXECUTED = 4,
    EXITED = 5,
    ENDED = 6,
    KINDS = 7,
};

/* What every record begins with. */
struct head {
    __u32 kind;
    /* The process that the record is of, and when it was created, in nanoseconds of CLOCK_MONOTONIC. */
    __u32 pid;
    __u64 start_ns;
};

/* A file, as the kernel has it; all 0: none. */
struct identity {
    __u64 inode;
    __u64 ctime_s;
    __u64 size_bytes;
    /* The kernel's number: 12 bits, then 20. */
    __u32 device;
    __u32 ctime_ns;
};

/* The user's registers as the kernel saves them at a system call (struct pt_regs of x86-64); those that the programs need by name. */
struct saved_registers {
    __u64 first[13];
    __u64 second_argument;
    __u64 first_argument;
    __u64 system_call;
    __u64 behind[3];
    __u64 stack_pointer;
    __u64 stack_segment;
};

/* A process was created, at the time that its head says. */
struct created {
    struct head head;
    __u64 parent_start_ns;
    __u32 parent_pid;
    /* How much of `stack` is told from the stack pointer on. */
    __u32 stack_bytes;
    /* Where the rest was, and how much of it is told behind NEAR_BYTES; 0: nothing. */
    __u64 far_at;
    __u64 far_bytes;
    /* The file that the parent executes. */
    struct identity image;
    struct saved_registers registers;
    unsigned char stack[STACK_BYTES];
};

/* A file that a process has mapped for execution. */
struct mapping {
    struct head head;
    __u64 start;
    __u64 end;
    /* Where in the file it begins. */
    __u64 offset;
    struct identity file;
    /* 0: the first of a list, which takes the place of the process's last one. */
    __u64 position;
};

/* A file that is to be read while a process has it, and its path. In a ring of its own. */
struct image {
    struct head head;
    struct identity file;
    /* Where it is mapped; 0: it is what the process executes. */
    __u64 start;
    __u64 end;
    __u32 path_bytes;
    /* The path has more components than are told. */
    __u32 cut;
    unsigned char path[PATH_BYTES + COMPONENT_BYTES];
};

/* A process has executed a program. */
struct executed {
    struct head head;
    __u64 time_ns;
    struct identity image;
    /* How many bytes its arguments have, and how many of them are told: all or none. */
    __u32 argument_bytes;
    __u32 told_bytes;
    unsigned char arguments[ARGUMENT_BYTES];
};

/* What a process has used: processor time of all its threads, and the most memory that was resident. */
struct accounts {
    __u64 cpu_ns;
    __u64 peak_pages;
};

/* The last thread of a process begins to exit: its accounts so far. */
struct exited {
    struct head head;
    __u64 time_ns;
    struct accounts accounts;
};

/* A process is gone, and its accounts are complete. */
struct ended {
    struct head head;
    struct accounts accounts;
};

_Static_assert(sizeof(struct saved_registers) == 168, "saved_registers");
_Static_assert(sizeof(struct head) == 16, "head");
_Static_assert(sizeof(struct identity) == 32, "identity");
_Static_assert(sizeof(struct created) == 80 + 168 + STACK_BYTES, "created");
_Static_assert(sizeof(struct mapping) == 80, "mapping");
_Static_assert(sizeof(struct image) == 72 + PATH_BYTES + COMPONENT_BYTES, "image");
_Static_assert(sizeof(struct executed) == 64 + ARGUMENT_BYTES, "executed");
_Static_assert(sizeof(struct exited) == 40, "exited");
_Static_assert(sizeof(struct ended) == 32, "ended");

#endif
