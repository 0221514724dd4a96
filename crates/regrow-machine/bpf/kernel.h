/* What the programs use of the kernel's types: the fields alone, found at load time by the kernel's own type information (BTF). */
#ifndef REGROW_KERNEL_H
#define REGROW_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0

enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_RINGBUF = 27,
};

/* Of bpf_map_update_elem: whether the key is there or not. */
#define BPF_ANY 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
    const unsigned char *name;
};

struct dentry {
    struct dentry *d_parent;
    struct qstr d_name;
};

struct super_block {
    __u32 s_dev;
};

struct timespec64 {
    __s64 tv_sec;
    long tv_nsec;
};

struct inode {
    struct super_block *i_sb;
    unsigned long i_ino;
    __s64 i_size;
    /* Since 6.11. */
    __s64 i_ctime_sec;
    __u32 i_ctime_nsec;
};

struct inode___before_6_11 {
    struct timespec64 __i_ctime;
};

struct inode___before_6_6 {
    struct timespec64 i_ctime;
};

struct vfsmount {
    struct dentry *mnt_root;
};

struct mount {
    struct mount *mnt_parent;
    struct dentry *mnt_mountpoint;
    struct vfsmount mnt;
};

struct path {
    struct vfsmount *mnt;
    struct dentry *dentry;
};

struct file {
    struct path f_path;
    struct inode *f_inode;
};

struct mm_struct {
    struct file *exe_file;
    unsigned long exec_vm;
    unsigned long arg_start;
    unsigned long arg_end;
};

struct vm_area_struct {
    unsigned long vm_start;
    unsigned long vm_end;
    unsigned long vm_pgoff;
    unsigned long vm_flags;
    struct file *vm_file;
};

struct signal_struct {
    struct {
        int counter;
    } live;
    unsigned long long sum_sched_runtime;
    unsigned long maxrss;
};

struct sched_entity {
    __u64 sum_exec_runtime;
};

struct task_struct {
    unsigned int flags;
    struct sched_entity se;
    int tgid;
    __u64 start_time;
    __u32 self_exec_id;
    struct mm_struct *mm;
    struct signal_struct *signal;
    struct task_struct *group_leader;
};

struct pt_regs;
struct linux_binprm;

#pragma clang attribute pop

/* task_struct.flags: a thread of the kernel. */
#define PF_KTHREAD 0x00200000
/* The number of the system call clone of x86-64. */
#define SYSTEM_CALL_CLONE 56
/* inode.i_ctime_nsec: a mark of the kernel's own (since 6.13). */
#define CTIME_QUERIED 0x80000000
/* vm_area_struct.vm_flags: may be executed. */
#define VM_EXEC 0x4

#endif
