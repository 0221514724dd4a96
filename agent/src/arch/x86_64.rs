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
    pub const MREMAP: usize = 25;
    pub const BRK: usize = 12;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const SCHED_YIELD: usize = 24;
    pub const MADVISE: usize = 28;
    pub const GETPID: usize = 39;
    pub const GETPPID: usize = 110;
    pub const KILL: usize = 62;
    pub const SENDTO: usize = 44;
    pub const RECVMSG: usize = 47;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const UMASK: usize = 95;
    pub const GETRLIMIT: usize = 97;
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

/// How long the keeper sleeps at most, in the kernel's form: 5 ms, 20 ms, 1 s.
static SLEEPS: [[u64; 2]; 3] = [[0, 5_000_000], [0, 20_000_000], [1, 0]];

/// A process that is to be made with `clone3`: its arguments, and where it begins, on a stack of its own.
pub type CloneCall = (*const u64, unsafe extern "C" fn(&ImageHeader) -> !);

/// Where the keeper goes on: the image, why, the bell's word (or the error of a clone), and what it has remembered.
pub type Wake = unsafe extern "C" fn(&ImageHeader, u64, u64, u64, u64, u64) -> !;

/// The keeper's sleep, with a clone before it. Between that and the call of `wake` it uses no memory but the bell's word, which only
/// says when it is worth asking, and what is sealed. What it must know is in registers, which a run cannot reach:
///
/// | r15 | r14 | r13 | r12 | rbx, rbp | r9 | r8, then rsp |
/// |---|---|---|---|---|---|---|
/// | image | the bell | what it said | the process, and bits above | what is remembered | `wake` | the end of the empty stack |
///
/// After each sleep the kernel is asked whether this task is alone (`unshare` of the memory says so). If not, whether it shares root and
/// directory with the process (`kcmp`), which every process gives up before it begins; if not, whether there is such a process (`kill`).
/// Where there is none, whoever shares the memory is a stranger; its last moments are waited for. A kernel without `kcmp` does not tell
/// whether a process has begun: it is taken for one that has not.
///
/// # Safety
/// `image` is this body's image, `bell` its word, the lower half of the first word of `memory` the process, or zero if one is to be made,
/// and `stack` the end of memory that nothing is kept in, aligned to 16 bytes. The clone's stack is unused memory.
pub unsafe fn sleep(
    image: &ImageHeader,
    bell: (*mut u32, u32),
    memory: [u64; 3],
    look_after_ms: u64,
    (stack, wake): (u64, Wake),
    clone: Option<CloneCall>,
) -> ! {
    let first = match look_after_ms {
        1000.. => &SLEEPS[2],
        20.. => &SLEEPS[1],
        _ => &SLEEPS[0],
    };
    let (args, start) = clone.map_or((core::ptr::null(), 0), |(args, start)| (args, start as usize));
    // SAFETY: see the contract; nothing of this frame is needed once the inputs are in registers, and it is never left. The process runs
    // on its own stack, and has the registers of this task.
    unsafe {
        asm!(
            "mov rbx, {ignored}; mov rbp, {oom_score}",
            "test rdi, rdi; jz 5f",
            "mov esi, 88; mov eax, {clone3}; syscall",
            "test rax, rax; jz 7f; js 6f",
            "or r12, rax",
            "5: mov rsp, r8",
            // futex(bell, FUTEX_WAIT, what it said, the time in r10)
            "2: mov eax, {futex}; mov rdi, r14; xor esi, esi; mov edx, r13d; syscall",
            "mov r13d, dword ptr [r14]",
            "mov eax, {unshare}; mov edi, {clone_vm}; syscall",
            "mov esi, {alone}; test rax, rax; jz 8f",
            // kcmp(getpid(), process, KCMP_FS)
            "mov eax, {getpid}; syscall",
            "mov edi, eax; mov esi, r12d; mov edx, 3; xor r10d, r10d; xor r8d, r8d; mov eax, {kcmp}; syscall",
            "mov esi, {not_begun}; test rax, rax; jz 8f",
            "cmp rax, {enosys}; jz 8f",
            // kill(process, 0)
            "mov edi, r12d; xor esi, esi; mov eax, {kill}; syscall",
            "cmp rax, {esrch}; jz 3f",
            "lea r10, [rip + {sleeps} + 16]; jmp 2b",
            "3: mov r10d, 1000",
            "4: mov eax, {unshare}; mov edi, {clone_vm}; syscall",
            "mov esi, {alone}; test rax, rax; jz 8f",
            "mov eax, {sched_yield}; syscall",
            "dec r10d; jnz 4b",
            "mov esi, {not_alone}",
            "8: mov edx, r13d",
            "9: mov rax, r9; mov rdi, r15; mov rcx, r12; mov r8, rbx; mov r9, rbp; xor ebp, ebp",
            "call rax",
            "ud2",
            "6: mov rsp, r8; mov rdx, rax; mov esi, {not_made}; jmp 9b",
            // The process.
            "7: mov rdi, r15; xor ebp, ebp",
            "call rdx",
            "ud2",
            ignored = in(reg) memory[1], oom_score = in(reg) memory[2], in("rdi") args, in("rdx") start,
            in("r15") image, in("r14") bell.0, in("r13") u64::from(bell.1), in("r12") memory[0],
            in("r10") first, in("r9") wake, in("r8") stack,
            futex = const nr::FUTEX, unshare = const nr::UNSHARE, getpid = const nr::GETPID, kcmp = const nr::KCMP,
            kill = const nr::KILL, sched_yield = const nr::SCHED_YIELD, clone_vm = const 0x100,
            enosys = const -38, esrch = const -3,
            clone3 = const nr::CLONE3, not_made = const woken::NOT_MADE, alone = const woken::ALONE, not_begun = const woken::NOT_BEGUN, not_alone = const woken::NOT_ALONE,
            sleeps = sym SLEEPS, options(noreturn))
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

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Gives a cache line the content of another, where it differs, and tells whether it did.
///
/// # Safety
/// Both lines are aligned; `to` is writable, and nobody uses it meanwhile.
#[inline(always)]
pub unsafe fn restore_line(to: *mut u64, from: *const u64) -> bool {
    use core::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_store_si128,
    };
    const ALL_EQUAL: i32 = 0xffff;
    let (to, from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
    // SAFETY: four pieces of 16 bytes are the line; every processor of this architecture has the instructions.
    unsafe {
        let want = [
            _mm_load_si128(from),
            _mm_load_si128(from.add(1)),
            _mm_load_si128(from.add(2)),
            _mm_load_si128(from.add(3)),
        ];
        let first = _mm_and_si128(
            _mm_cmpeq_epi8(want[0], _mm_load_si128(to)),
            _mm_cmpeq_epi8(want[1], _mm_load_si128(to.add(1))),
        );
        let second = _mm_and_si128(
            _mm_cmpeq_epi8(want[2], _mm_load_si128(to.add(2))),
            _mm_cmpeq_epi8(want[3], _mm_load_si128(to.add(3))),
        );
        if _mm_movemask_epi8(_mm_and_si128(first, second)) == ALL_EQUAL {
            return false;
        }
        _mm_store_si128(to, want[0]);
        _mm_store_si128(to.add(1), want[1]);
        _mm_store_si128(to.add(2), want[2]);
        _mm_store_si128(to.add(3), want[3]);
        true
    }
}

/// Has the processor bring a cache line into its caches. An address of nothing has no effect.
#[inline(always)]
pub fn prefetch(line: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that a program sees, and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
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
