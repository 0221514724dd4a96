//! Names of the machines that a program can be for.

use object::elf;

/// The name of a machine by its `e_machine`.
pub(crate) fn machine_name(machine: u16) -> Option<&'static str> {
    Some(match machine {
        elf::EM_386 => "i386",
        elf::EM_ARM => "arm",
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_PPC64 => "ppc64",
        elf::EM_S390 => "s390",
        elf::EM_RISCV => "riscv",
        _ => return None,
    })
}
