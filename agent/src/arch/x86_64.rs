//! x86-64: system calls, the clone that continues on another stack, and the jump to the snapshot point.

use core::arch::asm;

use regrow_abi::{ImageHeader, Registers};

use super::woken;

/// Numbers of the system calls that the agent makes.
pub mod nr {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const FSTAT: usize = 5;
    pub const POLL: usize = 7;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const BRK: usize = 12;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const SCHED_YIELD: usize = 24;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const KILL: usize = 62;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const UMASK: usize = 95;
    pub const SETPGID: usize = 109;
    pub const SETSID: usize = 112;
    pub const GETSID: usize = 124;
    pub const RT_SIGPENDING: usize = 127;
    pub const EXECVE: usize = 59;
    pub const SETPRIORITY: usize = 141;
    pub const MUNLOCKALL: usize = 152;
    pub const MODIFY_LDT: usize = 154;
    pub const PRCTL: usize = 157;
    pub const SIGALTSTACK: usize = 131;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const USERFAULTFD: usize = 323;
    pub const FUTEX: usize = 202;
    pub const SCHED_SETAFFINITY: usize = 203;
    pub const SCHED_SETATTR: usize = 314;
    pub const SCHED_GETATTR: usize = 315;
    pub const IO_DESTROY: usize = 207;
    pub const MBIND: usize = 237;
    pub const SET_TID_ADDRESS: usize = 218;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const UNSHARE: usize = 272;
    pub const SET_ROBUST_LIST: usize = 273;
    pub const DUP3: usize = 292;
    pub const PRLIMIT64: usize = 302;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const IOPRIO_GET: usize = 252;
    pub const MEMBARRIER: usize = 324;
    pub const PKEY_MPROTECT: usize = 329;
    pub const PKEY_FREE: usize = 331;
    pub const RSEQ: usize = 334;
    pub const KCMP: usize = 312;
    pub const CLONE3: usize = 435;
    pub const CLOSE_RANGE: usize = 436;
    pub const PROCESS_MADVISE: usize = 440;
    pub const MSEAL: usize = 462;
}

/// Words of the kernel's `struct stat`.
pub const STAT_WORDS: usize = 18;

/// Whether the address space has a local descriptor table: `modify_ldt` makes one, and no call takes it away.
pub fn has_descriptor_table() -> bool {
    let mut entry = [0u64; 2];
    // SAFETY: the call reads at most 16 bytes of the table into `entry`.
    unsafe { syscall6(nr::MODIFY_LDT, [0, entry.as_mut_ptr() as usize, 16, 0, 0, 0]) > 0 }
}

/// One system call. Returns what the kernel returns: negative values down to -4095 are errors.
///
/// # Safety
/// The arguments must be what the call `number` takes; pointers among them must be valid for it.
#[inline(always)]
pub unsafe fn syscall6(number: usize, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the `syscall` instruction clobbers rcx and r11, and memory as the caller's contract says.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// `clone3` whose child starts `child(argument)` on the stack that the arguments name. Returns in the parent only.
///
/// # Safety
/// `args` points to a valid `struct clone_args` of `bytes` bytes whose stack is unused memory, and `child` never returns.
pub unsafe fn clone_onto<T>(
    args: *const u64,
    bytes: usize,
    argument: &T,
    child: unsafe extern "C" fn(&T) -> !,
) -> isize {
    let result: isize;
    // SAFETY: the child runs on its own stack and never comes back through this frame; it inherits the register
    // values, so that `child` and `argument` are still in the two registers that are named.
    unsafe {
        asm!("syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE3 as isize => result,
            in("rdi") args, in("rsi") bytes, in("r12") argument, in("r13") child,
            lateout("rcx") _, lateout("r11") _);
    }
    result
}

unsafe extern "C" {
    /// Where the keeper goes on: the image, a number of `woken`, the bell's word, and the three words.
    fn keeper_wakes();
}

/// The end of [`sleep`], where the process is gone: whoever shares the memory is a stranger; its last moments are waited for.
macro_rules! last_moments {
    () => {
        concat!(
            "3:\n",
            "mov r10d, 1000\n",
            "4:\n",
            "mov eax, {unshare}\n",
            "mov edi, 0x100\n",
            "syscall\n",
            "test rax, rax\n",
            "mov esi, {alone}\n",
            "jz 8f\n",
            "mov eax, {sched_yield}\n",
            "syscall\n",
            "dec r10d\n",
            "jnz 4b\n",
            "mov esi, {not_alone}\n",
        )
    };
}

/// How long the keeper sleeps at most, in the kernel's form: 5 ms, 20 ms, 1 s.
static SLEEPS: [[u64; 2]; 3] = [[0, 5_000_000], [0, 20_000_000], [1, 0]];

fn first_sleep(look_after_ms: u64) -> &'static [u64; 2] {
    match look_after_ms {
        1000.. => &SLEEPS[2],
        20.. => &SLEEPS[1],
        _ => &SLEEPS[0],
    }
}

/// The keeper's sleep: see [`crate::sleep`]. Between the first instruction and the call of `keeper_wakes` it uses no memory
/// but the bell's word, which only says when it is worth asking, and what is sealed.
///
/// After each sleep the kernel is asked whether this task is alone (`unshare` of the memory says so). If not, whether it shares root and
/// directory with the process, which every process gives up before it begins; if not, whether there is such a process. A kernel without
/// `kcmp` says nothing of a process that has not begun: then it is taken for one.
///
/// # Safety
/// `image` is this body's image, `bell` its word, and `stack` the end of memory that nothing is kept in.
pub unsafe fn sleep(
    image: *const ImageHeader,
    bell: *mut u32,
    seen: u32,
    [pid, ignored, oom_score]: [u64; 3],
    look_after_ms: u64,
    stack: u64,
) -> ! {
    // SAFETY: see the contract; nothing of this frame is needed once the inputs are in registers, and it is never left.
    unsafe {
        asm!(
            "mov rbx, {ignored}",
            "mov rbp, {oom_score}",
            // Until here the stack is used. From here on rsp is only the place where the next one begins.
            "mov rsp, r8",
            "xor r9d, r9d",
            "2:",
            "mov eax, {futex}",
            "mov rdi, r14",
            "xor esi, esi",
            "mov edx, r13d",
            "xor r8d, r8d",
            "syscall",
            "mov r13d, dword ptr [r14]",
            "mov eax, {unshare}",
            "mov edi, 0x100",
            "syscall",
            "test rax, rax",
            "mov esi, {alone}",
            "jz 8f",
            // kcmp(self, process, KCMP_FS)
            "mov eax, {getpid}",
            "syscall",
            "mov edi, eax; mov esi, r12d",
            "mov edx, 3",
            "xor r10d, r10d",
            "mov eax, {kcmp}",
            "syscall",
            "test rax, rax",
            "mov esi, {not_begun}",
            "jz 8f",
            "cmp rax, -38",
            "jz 8f",
            // kill(process, 0)
            "mov edi, r12d",
            "xor esi, esi",
            "mov eax, {kill}",
            "syscall",
            "cmp rax, -3",
            "jz 3f",
            "lea r10, [rip + {sleeps} + 16]",
            "jmp 2b",
            last_moments!(),
            "8:",
            "mov rdi, r15",
            "mov edx, r13d",
            "mov rcx, r12",
            "mov r8, rbx",
            "mov r9, rbp",
            "xor ebp, ebp",
            "call {wake}",
            "ud2",
            ignored = in(reg) ignored, oom_score = in(reg) oom_score,
            in("r15") image, in("r14") bell, in("r13") u64::from(seen), in("r12") pid, in("r10") first_sleep(look_after_ms), in("r8") stack,
            futex = const nr::FUTEX, unshare = const nr::UNSHARE, getpid = const nr::GETPID, kcmp = const nr::KCMP,
            kill = const nr::KILL, sched_yield = const nr::SCHED_YIELD,
            alone = const woken::ALONE, not_begun = const woken::NOT_BEGUN, not_alone = const woken::NOT_ALONE,
            sleeps = sym SLEEPS, wake = sym keeper_wakes, options(noreturn))
    }
}

/// Loads the flags, the stack pointer and all general registers but rax and r11, which has the address to go on at, from what rax
/// points to; what follows loads those two and goes on.
macro_rules! load_registers {
    ($registers:expr, $($last:literal),+) => {
        asm!(
            "push qword ptr [rax + {flags}]",
            "popfq",
            "mov rsp, [rax + {rsp}]",
            "mov r11, [rax + {rip}]",
            "mov rbx, [rax + 8]",
            "mov rcx, [rax + 16]",
            "mov rdx, [rax + 24]",
            "mov rsi, [rax + 32]",
            "mov rdi, [rax + 40]",
            "mov rbp, [rax + 48]",
            "mov r8, [rax + 64]",
            "mov r9, [rax + 72]",
            "mov r10, [rax + 80]",
            "mov r12, [rax + 96]",
            "mov r13, [rax + 104]",
            "mov r14, [rax + 112]",
            "mov r15, [rax + 120]",
            $($last),+,
            rip = const 16 * 8, flags = const 17 * 8, rsp = const 7 * 8,
            in("rax") $registers, options(noreturn))
    };
}

/// Leaves the agent for the snapshot point: loads the floating-point state and all general registers, and jumps. At a function's
/// first instruction (`behind_call` is false) it does so through the word below the stack pointer, which nobody uses there; behind a
/// system call, where the words below the stack pointer may be in use, through r11, which the call has taken anyway.
///
/// # Safety
/// `fp` is a 64-byte aligned XSAVE (or FXSAVE) area as the kernel hands it out; `registers` are those of a snapshot
/// whose memory is in place.
pub unsafe fn jump(registers: &Registers, fp: *const u8, xsave: bool, behind_call: bool) -> ! {
    // SAFETY: see the contract; nothing of this frame is needed once rsp is loaded.
    unsafe {
        if xsave {
            asm!("xrstor64 [{}]", in(reg) fp, in("eax") u32::MAX, in("edx") u32::MAX, options(nostack));
        } else {
            asm!("fxrstor64 [{}]", in(reg) fp, options(nostack));
        }
        if behind_call {
            load_registers!(registers, "mov rax, [rax]", "jmp r11")
        } else {
            load_registers!(
                registers,
                "mov [rsp - 8], r11",
                "mov r11, [rax + 88]",
                "mov rax, [rax]",
                "jmp qword ptr [rsp - 8]"
            )
        }
    }
}

/// Copies bytes forward.
///
/// # Safety
/// Both ranges are valid and do not overlap with `to` above `from`.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: see the contract; `rep movsb` changes the three registers, which are outputs too.
    unsafe {
        asm!("rep movsb", inout("rdi") to => _, inout("rsi") from => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    }
}

/// Fills bytes.
///
/// # Safety
/// The range is valid.
#[inline(always)]
pub unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) {
    // SAFETY: see the contract.
    unsafe {
        asm!("rep stosb", inout("rdi") to => _, in("al") byte, inout("rcx") bytes => _,
            options(nostack, preserves_flags));
    }
}
