//! What the kernel tells of an address space beside its pages: names of mappings, the agent's areas, files of `/proc`.

use std::io::Read;

use regrow_sys::maps::SmapsEntry;

use super::difference::{Difference, open};

/// The files of a process that tell of its address space.
const FILES: [&str; 3] = ["auxv", "coredump_filter", "oom_score_adj"];
/// They are not longer.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The seed's mapping that holds an address.
fn of_seed(seed: &[SmapsEntry], address: u64) -> Option<&SmapsEntry> {
    let found = seed.get(seed.partition_point(|entry| entry.mapping.end <= address));
    found.filter(|entry| entry.mapping.contains(address))
}

/// Anonymous memory has the names that it has in the seed, piece by piece. A file's name changes with the file.
pub(super) fn compare_names(seed: &[SmapsEntry], have: &[SmapsEntry]) -> Result<(), Difference> {
    for mapping in have.iter().map(|entry| &entry.mapping).filter(|mapping| mapping.inode == 0) {
        let Some(wanted) = of_seed(seed, mapping.start).map(|entry| &entry.mapping) else { continue };
        if wanted.inode == 0 && wanted.name != mapping.name {
            let (have, want) = (format!("{:?}", mapping.name), format!("{:?}", wanted.name));
            return Err(Difference::Name { start: mapping.start, have, want });
        }
    }
    Ok(())
}

/// The agent's areas are those of the seed, and nobody has written to those that are only read. Their flags are not: a body's areas
/// have another fate in a fork than the seed's.
pub(super) fn compare_agent(
    seed: &[SmapsEntry],
    have: &[SmapsEntry],
    agent: (u64, u64),
) -> Result<(), Difference> {
    let is_agents = |entry: &&SmapsEntry| agent.0 <= entry.mapping.start && entry.mapping.end <= agent.1;
    let (mut wanted, mut had) = (seed.iter().filter(is_agents), have.iter().filter(is_agents));
    loop {
        let (want, have) = match (wanted.next(), had.next()) {
            (None, None) => return Ok(()),
            (Some(want), Some(have)) => (want, have),
            (Some(one), None) | (None, Some(one)) => {
                return Err(Difference::Agent { start: one.mapping.start, what: "a mapping more or less" });
            }
        };
        let differs = |what| Difference::Agent { start: have.mapping.start, what };
        let range = |entry: &SmapsEntry| (entry.mapping.start, entry.mapping.end, entry.mapping.offset);
        let rights = |entry: &SmapsEntry| (entry.mapping.read, entry.mapping.write, entry.mapping.exec);
        if range(want) != range(have) || want.mapping.name != have.mapping.name {
            return Err(differs("its place or its file"));
        }
        if rights(want) != rights(have) {
            return Err(differs("its protection"));
        }
        if !have.mapping.write && have.anonymous_kib + have.swap_kib > 0 {
            return Err(differs("it was written to"));
        }
    }
}

/// What the kernel tells in small files.
pub(super) fn compare_files(seed: i32, keeper: i32) -> Result<(), Difference> {
    for file in FILES {
        if content(seed, file)? != content(keeper, file)? {
            return Err(Difference::Space { pid: keeper, file });
        }
    }
    let link = |pid: i32| {
        let path = std::path::PathBuf::from(format!("/proc/{pid}/exe"));
        std::fs::read_link(path).map_err(|source| Difference::Read { what: "exe", pid, source })
    };
    if link(seed)? == link(keeper)? { Ok(()) } else { Err(Difference::Space { pid: keeper, file: "exe" }) }
}

fn content(pid: i32, what: &'static str) -> Result<Vec<u8>, Difference> {
    let mut bytes = Vec::new();
    let read = open(pid, what)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes);
    read.map_err(|source| Difference::Read { what, pid, source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use regrow_sys::maps::parse_smaps;

    use super::*;

    /// Mappings as the kernel tells of them.
    fn smaps(lines: &[&str], anonymous_kib: u32) -> Vec<SmapsEntry> {
        let entry = |line: &&str| format!("{line}\nAnonymous: {anonymous_kib} kB\nVmFlags: rd \n");
        let text: String = lines.iter().map(entry).collect();
        parse_smaps(text.as_bytes()).expect("as the kernel writes it")
    }

    #[test]
    fn a_name_that_a_run_gave_its_memory_is_seen() {
        let seed = smaps(&["1000-3000 rw-p 00000000 00:00 0 "], 0);
        let named =
            smaps(&["1000-2000 rw-p 00000000 00:00 0 ", "2000-3000 rw-p 00000000 00:00 0 [anon:left]"], 0);
        assert!(compare_names(&seed, &seed).is_ok());
        assert!(matches!(compare_names(&seed, &named), Err(Difference::Name { start: 0x2000, .. })));
    }

    #[test]
    fn an_area_of_the_agent_that_was_moved_opened_or_written_is_seen() {
        const CODE: &str = "1000-3000 r-xp 00000000 00:01 5 /memfd:agent (deleted)";
        let seed = smaps(&[CODE], 0);
        let differs = |have: Vec<SmapsEntry>| match compare_agent(&seed, &have, (0x1000, 0x9000)) {
            Err(Difference::Agent { what, .. }) => what,
            other => panic!("{other:?}"),
        };
        assert!(compare_agent(&seed, &smaps(&[CODE], 0), (0x1000, 0x9000)).is_ok());
        assert_eq!(differs(smaps(&[CODE], 4)), "it was written to");
        assert_eq!(differs(smaps(&[&CODE.replace("r-x", "rwx")], 0)), "its protection");
        assert_eq!(differs(smaps(&[&CODE.replace("3000", "2000")], 0)), "its place or its file");
        assert_eq!(differs(smaps(&[&CODE.replace("agent", "other")], 0)), "its place or its file");
        assert_eq!(differs(Vec::new()), "a mapping more or less");
        // What lies elsewhere is no area of the agent.
        let elsewhere = smaps(&[CODE, "a000-b000 rw-p 00000000 00:00 0 "], 0);
        assert!(compare_agent(&seed, &elsewhere, (0x1000, 0x9000)).is_ok());
    }

    #[test]
    fn a_process_tells_of_its_address_space_what_its_copy_tells() {
        let own = std::process::id().cast_signed();
        assert!(compare_files(own, own).is_ok());
        let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let found = compare_files(own, other.id().cast_signed());
        other.kill().expect("it is killed");
        other.wait().expect("its end");
        assert!(matches!(found, Err(Difference::Space { file: "auxv", .. })), "{found:?}");
    }
}
