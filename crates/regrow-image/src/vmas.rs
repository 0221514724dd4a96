//! The table of mappings of an image or a body, from what the kernel tells.

use regrow_abi::{VmaEntry, vma_flags};
use regrow_sys::maps::{MapName, SmapsEntry, VmFlag};

/// Turns the kernel's list into a table: like neighbours joined, what is not the program's marked. `agent` is the range of
/// the agent's own mappings.
#[must_use]
pub fn vma_table(smaps: &[SmapsEntry], agent: (u64, u64)) -> Vec<VmaEntry> {
    // The vsyscall page is the same in every process and no mapping of its own.
    let entries = smaps.iter().filter(|entry| entry.mapping.name != MapName::Vsyscall);
    joined(entries.map(|entry| vma_entry(entry, agent)))
}

/// The table of these mappings, like neighbours joined.
#[must_use]
pub fn joined(vmas: impl Iterator<Item = VmaEntry>) -> Vec<VmaEntry> {
    let mut table: Vec<VmaEntry> = Vec::new();
    for vma in vmas {
        match table.last_mut() {
            Some(last) if joins(last, &vma) => last.end = vma.end,
            _ => table.push(vma),
        }
    }
    table
}

fn vma_entry(entry: &SmapsEntry, agent: (u64, u64)) -> VmaEntry {
    let mapping = &entry.mapping;
    if agent.0 <= mapping.start && mapping.end <= agent.1 {
        let flags = vma_flags::HANDS_OFF | vma_flags::FILE;
        return VmaEntry { start: mapping.start, end: mapping.end, flags, ..VmaEntry::default() };
    }
    let wiped = entry.flags.has(VmFlag::WIPE_ON_FORK) || entry.flags.has(VmFlag::DROPPABLE);
    let bits = [
        (mapping.read, vma_flags::READ),
        (mapping.write, vma_flags::WRITE),
        (mapping.exec, vma_flags::EXEC),
        (mapping.shared, vma_flags::SHARED),
        (mapping.inode != 0, vma_flags::FILE),
        (mapping.name == MapName::Stack, vma_flags::STACK),
        (mapping.name.is_kernel_made(), vma_flags::HANDS_OFF),
        (wiped, vma_flags::WIPE),
        (entry.flags.has(VmFlag::DONT_DUMP), vma_flags::NO_DUMP),
        (entry.flags.has(VmFlag::NO_HUGE_PAGE), vma_flags::NO_HUGE),
    ];
    VmaEntry {
        start: mapping.start,
        end: mapping.end,
        offset: if mapping.inode == 0 { 0 } else { mapping.offset },
        inode: mapping.inode,
        dev_major: mapping.dev.0,
        dev_minor: mapping.dev.1,
        flags: bits.iter().filter(|bit| bit.0).fold(0, |flags, bit| flags | bit.1),
        path_offset: 0,
    }
}

/// As the agent joins neighbours when it compares.
fn joins(last: &VmaEntry, next: &VmaEntry) -> bool {
    let is_agents = |vma: &VmaEntry| vma.flags == vma_flags::HANDS_OFF | vma_flags::FILE;
    last.end == next.start
        && last.flags == next.flags
        && !is_agents(last)
        && (last.inode, last.dev_major, last.dev_minor) == (next.inode, next.dev_major, next.dev_minor)
        && (next.inode == 0 || next.offset == last.offset + (last.end - last.start))
}
