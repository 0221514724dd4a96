/* Tells which processes are created, by whom and where, what they execute, and what they have used when they end.
 *
 *   sched_process_fork   CREATED: the parent's registers at its system call and the top of its stack, which the collector unwinds;
 *                        before it MAPPING: what the parent has mapped for execution, when that is not known or has changed
 *   sched_process_exec   EXECUTED, with the arguments
 *   sched_process_exit   EXITED, of the last thread
 *   sched_process_free   ENDED: the task has been switched away from for the last time, its accounts are complete
 *
 * A file is told with its path when it is met first, and again when it is mapped by a parent and its code was not read: IMAGE, in a ring of
 * its own, because it is read while the process is there. What finds no room is counted by kind, and nothing waits.
 */
#include "kernel.h"
#include "records.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before the programs are loaded: only processes in `followed`, and what they create. */
const volatile __u8 only_followed = 0;
/* Set before the programs are loaded: this kernel can walk the mappings of a task. */
const volatile __u8 can_walk = 0;

/* Records that found no room, by kind. */
__u64 lost[KINDS];

struct process {
    __u64 start_ns;
    __u64 pid;
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 16 << 20);
} ring SEC(".maps");

/* Of IMAGE. It holds thousands of them: a collector may be late. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 2 << 20);
} files SEC(".maps");

/* Files that were told, and what for. The collector marks those whose code it has read. */
enum knowledge {
    NAMED = 1,
    CODE_READ = 2,
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1 << 14);
    __type(key, struct identity);
    __type(value, __u8);
} images SEC(".maps");

/* With `only_followed`: processes that were created by one that is followed. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1 << 16);
    __type(key, struct process);
    __type(value, __u8);
} followed SEC(".maps");

/* With `only_followed`: processes that were there before, by number, and when that was, in nanoseconds of CLOCK_MONOTONIC. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1 << 16);
    __type(key, __u32);
    __type(value, __u64);
} roots SEC(".maps");

/* Processes whose mappings were told, and what they looked like then. */

struct space {
    __u64 executable_pages;
    __u64 execs;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1 << 14);
    __type(key, struct process);
    __type(value, struct space);
} spaces SEC(".maps");

static __always_inline void count_lost(enum kind kind)
{
    __sync_fetch_and_add(&lost[kind], 1);
}

static __always_inline void fill_head(struct head *head, enum kind kind, struct task_struct *task)
{
    head->kind = kind;
    head->pid = task->tgid;
    head->start_ns = task->group_leader->start_time;
}

static __always_inline struct process key_of(struct task_struct *task)
{
    struct process process = {.start_ns = task->group_leader->start_time, .pid = task->tgid};

    return process;
}

static __always_inline bool is_followed(struct task_struct *task)
{
    struct process process;
    __u32 pid = task->tgid;
    __u64 *since_ns;

    if (!only_followed)
        return true;
    process = key_of(task);
    if (bpf_map_lookup_elem(&followed, &process))
        return true;
    since_ns = bpf_map_lookup_elem(&roots, &pid);
    return since_ns && process.start_ns <= *since_ns;
}

static __always_inline void follow(struct task_struct *task)
{
    struct process process = key_of(task);
    __u8 one = 1;

    bpf_map_update_elem(&followed, &process, &one, BPF_ANY);
}

static __always_inline void forget(struct task_struct *task)
{
    struct process process = key_of(task);
    __u32 pid = task->tgid;
    __u64 *since_ns = bpf_map_lookup_elem(&roots, &pid);

    bpf_map_delete_elem(&followed, &process);
    if (since_ns && process.start_ns <= *since_ns)
        bpf_map_delete_elem(&roots, &pid);
}

static __always_inline void read_ctime(struct identity *identity, struct inode *inode)
{
    struct timespec64 ctime = {};

    if (bpf_core_field_exists(inode->i_ctime_sec)) {
        identity->ctime_s = inode->i_ctime_sec;
        identity->ctime_ns = inode->i_ctime_nsec & ~CTIME_QUERIED;
        return;
    }
    if (bpf_core_field_exists(((struct inode___before_6_11 *)0)->__i_ctime))
        bpf_core_read(&ctime, sizeof(ctime), &((struct inode___before_6_11 *)inode)->__i_ctime);
    else
        bpf_core_read(&ctime, sizeof(ctime), &((struct inode___before_6_6 *)inode)->i_ctime);
    identity->ctime_s = ctime.tv_sec;
    identity->ctime_ns = ctime.tv_nsec;
}

static __always_inline void identify(struct identity *identity, struct file *file)
{
    struct inode *inode = file->f_inode;

    identity->inode = inode->i_ino;
    identity->size_bytes = inode->i_size;
    identity->device = inode->i_sb->s_dev;
    read_ctime(identity, inode);
}

/* Writes the path of a file, its last component first. */
static __always_inline void write_path(struct image *image, struct file *file)
{
    struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);
    struct vfsmount *at = BPF_CORE_READ(file, f_path.mnt);
    struct mount *mount = (void *)at - bpf_core_field_offset(struct mount, mnt);
    __u32 bytes = 0;

    image->cut = 1;
    for (int step = 0; step < 40; step++) {
        struct dentry *parent = BPF_CORE_READ(dentry, d_parent);

        if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
            struct mount *above = BPF_CORE_READ(mount, mnt_parent);

            if (above == mount) {
                image->cut = 0;
                break;
            }
            dentry = BPF_CORE_READ(mount, mnt_mountpoint);
            mount = above;
            continue;
        }
        if (dentry == parent || bytes > PATH_BYTES)
            break;
        long read = bpf_probe_read_kernel_str(&image->path[bytes], COMPONENT_BYTES, BPF_CORE_READ(dentry, d_name.name));
        if (read <= 0 || read >= COMPONENT_BYTES)
            break;
        bytes += read;
        dentry = parent;
    }
    image->path_bytes = bytes;
}

/* Tells a file, unless as much is known of it: one that a process executes, or has mapped there. */
static __noinline int tell_image(struct file *file, struct identity *identity, struct task_struct *task, __u64 start, __u64 end)
{
    struct image *image;
    __u8 named = NAMED;
    __u8 *known;

    if (!file || !identity || !task)
        return 0;
    known = bpf_map_lookup_elem(&images, identity);
    if (known && (*known == CODE_READ || !end))
        return 0;
    image = bpf_ringbuf_reserve(&files, sizeof(*image), 0);
    if (!image) {
        count_lost(IMAGE);
        return 0;
    }
    fill_head(&image->head, IMAGE, task);
    image->file = *identity;
    image->start = start;
    image->end = end;
    write_path(image, file);
    bpf_ringbuf_submit(image, 0);
    if (!known)
        bpf_map_update_elem(&images, identity, &named, BPF_ANY);
    return 0;
}

struct bpf_iter_task_vma {
    __u64 opaque[1];
} __attribute__((aligned(8)));

/* Calls of functions of the kernel by numbers that stand for them: the collector writes the function's own number of this kernel in their
 * place, or 0, and sets `can_walk` to 0. */
#define CALL_OF_KERNEL(number) ".long 0x2085; .long " number ";"
#define ITER_TASK_VMA_NEW "0x7e600001"
#define ITER_TASK_VMA_NEXT "0x7e600002"
#define ITER_TASK_VMA_DESTROY "0x7e600003"

static __always_inline int begin_walk(struct bpf_iter_task_vma *walk, struct task_struct *task)
{
    int error;

    asm volatile("r1 = %[walk]; r2 = %[task]; r3 = 0;" CALL_OF_KERNEL(ITER_TASK_VMA_NEW) "%[error] = r0;"
                 : [error] "=r"(error)
                 : [walk] "r"(walk), [task] "r"(task)
                 : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
    return error;
}

static __always_inline struct vm_area_struct *next_of_walk(struct bpf_iter_task_vma *walk)
{
    struct vm_area_struct *area;

    asm volatile("r1 = %[walk];" CALL_OF_KERNEL(ITER_TASK_VMA_NEXT) "%[area] = r0;"
                 : [area] "=r"(area)
                 : [walk] "r"(walk)
                 : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
    return area;
}

static __always_inline void end_walk(struct bpf_iter_task_vma *walk)
{
    asm volatile("r1 = %[walk];" CALL_OF_KERNEL(ITER_TASK_VMA_DESTROY)
                 :
                 : [walk] "r"(walk)
                 : "r0", "r1", "r2", "r3", "r4", "r5", "memory");
}

/* Tells one mapping; whether it found room. */
static __always_inline bool tell_mapping(struct task_struct *task, struct vm_area_struct *area, struct file *file, __u64 position)
{
    struct identity identity = {};
    struct mapping *mapping;

    identify(&identity, file);
    tell_image(file, &identity, task, area->vm_start, area->vm_end);
    mapping = bpf_ringbuf_reserve(&ring, sizeof(*mapping), 0);
    if (!mapping) {
        count_lost(MAPPING);
        return false;
    }
    fill_head(&mapping->head, MAPPING, task);
    mapping->start = area->vm_start;
    mapping->end = area->vm_end;
    mapping->offset = (__u64)area->vm_pgoff << 12;
    mapping->file = identity;
    mapping->position = position;
    bpf_ringbuf_submit(mapping, 0);
    return true;
}

/* Tells what a process has mapped for execution; whether all of it found room. */
static __always_inline bool tell_mappings(struct task_struct *task)
{
    struct bpf_iter_task_vma walk;
    struct vm_area_struct *area;
    __u64 position = 0;
    bool whole = true;

    if (begin_walk(&walk, task) == 0) {
        while ((area = next_of_walk(&walk))) {
            struct file *file = area->vm_file;

            if (!(area->vm_flags & VM_EXEC) || !file)
                continue;
            whole &= tell_mapping(task, area, file, position);
            position++;
        }
    } else {
        whole = false;
    }
    end_walk(&walk);
    return whole;
}

/* Tells the mappings of a process unless they were told, and are the same. */
static __always_inline void see_to_mappings(struct task_struct *task, struct mm_struct *memory)
{
    struct process process = key_of(task);
    struct space space = {.executable_pages = memory->exec_vm, .execs = task->self_exec_id};
    struct space *known = bpf_map_lookup_elem(&spaces, &process);

    if (known && known->executable_pages == space.executable_pages && known->execs == space.execs)
        return;
    if (tell_mappings(task))
        bpf_map_update_elem(&spaces, &process, &space, BPF_ANY);
}

/* Copies memory from an address on, as far as it is there; how much it was. */
static __always_inline __u32 copy(void *to, __u32 bytes, __u64 from)
{
    __u32 to_page = 4096 - (from & 4095);

    if (bpf_probe_read_user(to, bytes, (void *)from) == 0)
        return bytes;
    /* It ends before: what is left of its page. */
    if (to_page == 0 || to_page > bytes || bpf_probe_read_user(to, to_page, (void *)from))
        return 0;
    return to_page;
}

/* Copies the top of the stack. A child's stack may be a part of its parent's frame (musl's posix_spawn): what is behind it is copied. */
static __always_inline void copy_stack(struct created *created, struct saved_registers *registers)
{
    __u64 distance = registers->second_argument - registers->stack_pointer;

    created->far_at = 0;
    created->far_bytes = 0;
    if (registers->system_call == SYSTEM_CALL_CLONE && distance >= NEAR_BYTES && distance < FARTHEST_BYTES) {
        created->stack_bytes = copy(created->stack, NEAR_BYTES, registers->stack_pointer);
        created->far_at = registers->second_argument;
        created->far_bytes = copy(created->stack + NEAR_BYTES, STACK_BYTES - NEAR_BYTES, created->far_at);
    } else {
        created->stack_bytes = copy(created->stack, STACK_BYTES, registers->stack_pointer);
    }
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_created, struct task_struct *parent, struct task_struct *child)
{
    struct mm_struct *memory = parent->mm;
    struct created *created;
    struct file *file;

    if (child->tgid == parent->tgid || child->flags & PF_KTHREAD || !is_followed(parent))
        return 0;
    if (only_followed)
        follow(child);
    if (memory && can_walk)
        see_to_mappings(parent, memory);
    created = bpf_ringbuf_reserve(&ring, sizeof(*created), 0);
    if (!created) {
        count_lost(CREATED);
        return 0;
    }
    fill_head(&created->head, CREATED, child);
    created->parent_pid = parent->tgid;
    created->parent_start_ns = parent->group_leader->start_time;
    __builtin_memset(&created->image, 0, sizeof(created->image));
    created->stack_bytes = 0;
    created->far_bytes = 0;
    file = memory ? memory->exe_file : (struct file *)0;
    if (file) {
        identify(&created->image, file);
        bpf_probe_read_kernel(&created->registers, sizeof(created->registers), (void *)bpf_task_pt_regs(parent));
        copy_stack(created, &created->registers);
    }
    bpf_ringbuf_submit(created, 0);
    return 0;
}

/* Reads the arguments of a program that has just begun, where there is room for all of them. */
static __always_inline void read_arguments(struct executed *executed, struct mm_struct *memory)
{
    unsigned long start = memory->arg_start;
    unsigned long bytes = memory->arg_end - start;

    executed->argument_bytes = bytes;
    executed->told_bytes = 0;
    if (bytes > 0 && bytes < ARGUMENT_BYTES && bpf_probe_read_user(executed->arguments, bytes & (ARGUMENT_BYTES - 1), (void *)start) == 0)
        executed->told_bytes = bytes;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executed, struct task_struct *task)
{
    struct mm_struct *memory = task->mm;
    struct file *file = memory ? memory->exe_file : (struct file *)0;
    struct executed *executed;
    struct identity identity = {};

    if (!file || !is_followed(task))
        return 0;
    identify(&identity, file);
    tell_image(file, &identity, task, 0, 0);
    executed = bpf_ringbuf_reserve(&ring, sizeof(*executed), 0);
    if (!executed) {
        count_lost(EXECUTED);
        return 0;
    }
    fill_head(&executed->head, EXECUTED, task);
    executed->time_ns = bpf_ktime_get_ns();
    executed->image = identity;
    read_arguments(executed, memory);
    bpf_ringbuf_submit(executed, 0);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exited, struct task_struct *task)
{
    struct exited *exited;

    if (task->flags & PF_KTHREAD || task->signal->live.counter > 0 || !is_followed(task))
        return 0;
    exited = bpf_ringbuf_reserve(&ring, sizeof(*exited), 0);
    if (!exited) {
        count_lost(EXITED);
        return 0;
    }
    fill_head(&exited->head, EXITED, task);
    exited->time_ns = bpf_ktime_get_ns();
    exited->accounts.cpu_ns = task->signal->sum_sched_runtime + task->se.sum_exec_runtime;
    exited->accounts.peak_pages = task->signal->maxrss;
    bpf_ringbuf_submit(exited, 0);
    return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(process_freed, struct task_struct *task)
{
    struct ended *ended;

    if (task->flags & PF_KTHREAD || task->group_leader != task || !is_followed(task))
        return 0;
    if (only_followed)
        forget(task);
    ended = bpf_ringbuf_reserve(&ring, sizeof(*ended), 0);
    if (!ended) {
        count_lost(ENDED);
        return 0;
    }
    fill_head(&ended->head, ENDED, task);
    ended->accounts.cpu_ns = task->signal->sum_sched_runtime;
    ended->accounts.peak_pages = task->signal->maxrss;
    bpf_ringbuf_submit(ended, 0);
    return 0;
}
