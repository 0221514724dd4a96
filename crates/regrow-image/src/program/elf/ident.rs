//! What the first bytes of an ELF file say: word size, byte order and machine.

use std::fmt;

use object::elf;

use crate::arch::{NATIVE_MACHINE, machine_name};

/// Word size, byte order and machine of an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfIdent {
    /// `EI_CLASS`: 1 for 32-bit, 2 for 64-bit.
    pub class: u8,
    /// `EI_DATA`: 1 for little-endian, 2 for big-endian.
    pub data: u8,
    /// `e_machine`, read in the file's own byte order.
    pub machine: u16,
}

impl ElfIdent {
    /// Reads the first 20 bytes of a file. `None` when it is not an ELF file.
    #[must_use]
    pub fn peek(head: &[u8]) -> Option<Self> {
        let head: &[u8; 20] = head.first_chunk()?;
        if !head.starts_with(&elf::ELFMAG) {
            return None;
        }
        let [.., low, high] = *head;
        let machine = [low, high];
        let [_, _, _, _, class, data, ..] = *head;
        let machine =
            if data == elf::ELFDATA2MSB { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
        Some(Self { class, data, machine })
    }

    /// Is it for this machine's 64-bit instruction set?
    #[must_use]
    pub fn is_native(self) -> bool {
        self == Self { class: elf::ELFCLASS64, data: elf::ELFDATA2LSB, machine: NATIVE_MACHINE }
    }
}

impl fmt::Display for ElfIdent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            elf::ELFCLASS32 => out.write_str("32-bit ")?,
            elf::ELFCLASS64 => out.write_str("64-bit ")?,
            class => write!(out, "class {class} ")?,
        }
        match self.data {
            elf::ELFDATA2LSB => out.write_str("little-endian ")?,
            elf::ELFDATA2MSB => out.write_str("big-endian ")?,
            data => write!(out, "byte order {data} ")?,
        }
        match machine_name(self.machine) {
            Some(name) => out.write_str(name),
            None => write!(out, "machine {}", self.machine),
        }
    }
}
