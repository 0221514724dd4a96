//! The names by which a program calls.
//!
//! A wrapper needs its caller's address and stack, which only code without a frame of its own can tell. What a function gives on is left as it
//! came in: the stack too, so that functions of any number of arguments pass through.

use core::arch::{global_asm, naked_asm};
use core::ffi::{c_int, c_void};

use crate::caller::Caller;
use crate::calls::{self, Ids, SpawnCall};
use crate::create::Pending;
use crate::next::Name;

// Functions that not every C library has: their addresses, or 0. The array of what runs when a program begins and ends.
global_asm!(
    ".weak _dl_find_object",
    ".weak dl_iterate_phdr",
    ".pushsection .data.rel.ro, \"aw\"",
    ".balign 8",
    ".hidden sites_find_object, sites_each_object",
    ".globl sites_find_object, sites_each_object",
    "sites_find_object: .quad _dl_find_object",
    "sites_each_object: .quad dl_iterate_phdr",
    ".popsection",
    ".pushsection .init_array, \"aw\"",
    ".balign 8",
    ".quad {begin}",
    ".popsection",
    ".pushsection .fini_array, \"aw\"",
    ".balign 8",
    ".quad {end}",
    ".popsection",
    begin = sym crate::begin::begin,
    end = sym crate::begin::end,
);

/// A function that goes on in another one with the caller's address, the caller's stack and its frame pointer, and with nothing else: it takes no
/// arguments.
macro_rules! enter {
    ($($name:ident => $to:path),* $(,)?) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            naked_asm!(
                "mov rdi, [rsp]",
                "lea rsi, [rsp + 8]",
                "mov rdx, rbp",
                "jmp {to}",
                to = sym $to,
            )
        }
    )*};
}

enter! {
    fork => calls::fork,
    __fork => calls::fork,
    _Fork => calls::fork_alone,
}

/// A function of any arguments that goes on in the next library's, after another one was told where it is called from and what its first
/// argument is. That one gives the address of the next library's.
macro_rules! pass {
    ($($name:ident: $number:ident => $to:path),* $(,)?) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "mov r8, rdi",
                "mov edi, {number}",
                "mov rsi, [rsp + 56]",
                "lea rdx, [rsp + 64]",
                "mov rcx, rbp",
                "call {to}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                number = const Name::$number as u32,
                to = sym $to,
            )
        }
    )*};
}

pass! {
    system: System => calls::before_inner,
    popen: Popen => calls::before_inner,
    wordexp: Wordexp => calls::before_inner,
    execve: Execve => calls::before_exec,
    execv: Execv => calls::before_exec,
    execvp: Execvp => calls::before_exec,
    execvpe: Execvpe => calls::before_exec,
    execl: Execl => calls::before_exec,
    execle: Execle => calls::before_exec,
    execlp: Execlp => calls::before_exec,
    fexecve: Fexecve => calls::before_exec,
    _exit: ExitNow => calls::before_exit,
    _Exit: ExitNowToo => calls::before_exit,
}

/// A function of six arguments or less, which another one takes the place of, given the caller's address, stack and frame pointer behind them.
macro_rules! replace {
    ($($name:ident => $to:path),* $(,)?) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            naked_asm!(
                ".cfi_startproc",
                "mov r10, [rsp]",
                "lea r11, [rsp + 8]",
                "push rbp",
                ".cfi_adjust_cfa_offset 8",
                "push r11",
                ".cfi_adjust_cfa_offset 8",
                "push r10",
                ".cfi_adjust_cfa_offset 8",
                "call {to}",
                "add rsp, 24",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_endproc",
                to = sym $to,
            )
        }
    )*};
}

replace! {
    posix_spawn => spawn,
    posix_spawnp => spawn_by_name,
    forkpty => calls::forkpty,
    daemon => calls::daemon,
}

unsafe extern "C" fn spawn(
    child: *mut c_int,
    path: *const u8,
    actions: *const c_void,
    attributes: *const c_void,
    argv: *const *const u8,
    envp: *const *const u8,
    from: Caller,
) -> c_int {
    let call = SpawnCall { child, path, actions, attributes, argv, envp };
    // SAFETY: the contract is that of the C library's function.
    unsafe { calls::spawn(Name::PosixSpawn, call, from) }
}

unsafe extern "C" fn spawn_by_name(
    child: *mut c_int,
    path: *const u8,
    actions: *const c_void,
    attributes: *const c_void,
    argv: *const *const u8,
    envp: *const *const u8,
    from: Caller,
) -> c_int {
    let call = SpawnCall { child, path, actions, attributes, argv, envp };
    // SAFETY: the contract is that of the C library's function.
    unsafe { calls::spawn(Name::PosixSpawnp, call, from) }
}

/// `clone` has seven arguments, of which the last stands on the stack where the caller gives it; it is given on and looked at no further.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn clone() -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, [rsp]",
        "lea r11, [rsp + 8]",
        "mov rax, [rsp + 8]",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "push r11",
        ".cfi_adjust_cfa_offset 8",
        "push r10",
        ".cfi_adjust_cfa_offset 8",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {to}",
        "add rsp, 40",
        ".cfi_adjust_cfa_offset -40",
        "ret",
        ".cfi_endproc",
        to = sym clone_from,
    )
}

unsafe extern "C" fn clone_from(
    function: *const c_void,
    stack: *const c_void,
    flags: c_int,
    argument: *const c_void,
    parent_id: *mut c_int,
    tls: *const c_void,
    child_id: *mut c_int,
    from: Caller,
) -> c_int {
    let ids = Ids { parent_id, tls, child_id };
    // SAFETY: the contract is that of the C library's function.
    unsafe { calls::clone(function, stack, flags, argument, &ids, from) }
}

/// Bytes on the stack that [`vfork`] has for what it tells.
const PENDING_BYTES: usize = 248;
const _: () = assert!(size_of::<Option<Pending>>() <= PENDING_BYTES - 8 && PENDING_BYTES % 16 == 8);

/// What `vfork` is to the kernel: `CLONE_VM`, `CLONE_VFORK` and the signal of the child's end; and the child's number is written before it runs.
const LIKE_VFORK: usize = 0x100 | 0x4000 | 17 | 0x10_0000;

/// The child runs on its parent's stack and returns first, so that nothing in memory is the parent's any more when it goes on: the return address is
/// in a register meanwhile. The child tells of its own creation.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> c_int {
    naked_asm!(
        ".cfi_startproc",
        "mov rdi, [rsp]",
        "lea rsi, [rsp + 8]",
        "mov rdx, rbp",
        "sub rsp, {bytes}",
        ".cfi_adjust_cfa_offset {bytes}",
        "lea rcx, [rsp + 8]",
        "call {before}",
        "mov r8, [rsp + {bytes}]",
        "mov edi, {flags}",
        "xor esi, esi",
        "mov rdx, rsp",
        "mov eax, 56",
        "syscall",
        "test rax, rax",
        "jnz 2f",
        "mov edi, [rsp]",
        "lea rsi, [rsp + 8]",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {child}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "add rsp, {bytes} + 8",
        ".cfi_adjust_cfa_offset -{bytes} - 8",
        "xor eax, eax",
        "jmp rdi",
        "2:",
        ".cfi_adjust_cfa_offset {bytes} + 8",
        "add rsp, {bytes}",
        ".cfi_adjust_cfa_offset -{bytes}",
        "mov [rsp], r8",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "mov rdi, rax",
        "jmp {failed}",
        ".cfi_endproc",
        bytes = const PENDING_BYTES,
        flags = const LIKE_VFORK,
        before = sym calls::before_vfork,
        child = sym calls::in_vfork_child,
        failed = sym calls::vfork_failed,
    )
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __vfork() -> c_int {
    naked_asm!("jmp {to}", to = sym vfork)
}

/// The first function that a program calls: `main` is exchanged for [`main_is_called`].
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_start_main() -> c_int {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "lea rcx, [rip + {main}]",
        "call {begin}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "mov r11, rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "mov rdi, r11",
        "jmp rax",
        begin = sym crate::begin::before_main,
        main = sym main_is_called,
    )
}

#[unsafe(naked)]
unsafe extern "C" fn main_is_called() -> c_int {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "call {main}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        main = sym crate::begin::main,
    )
}
