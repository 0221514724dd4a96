//! Tests of the maps reader: lines that kernels wrote, lines that they never write, every list there and
//! back, and this process as it is.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// As Linux 6.18 wrote it, with one mapping of each kind.
const EXAMPLE: &str = "\
555555554000-555555556000 r--p 00000000 fe:00 1179690                    /usr/bin/cat
555555556000-55555555b000 r-xp 00002000 fe:00 1179690                    /usr/bin/cat
55555555e000-55555557f000 rw-p 00000000 00:00 0                          [heap]
7ffff0000000-7ffff0021000 rw-p 00000000 00:00 0 
7ffff7c00000-7ffff7c01000 rw-s 00000000 00:01 2051                       /memfd:agent (deleted)
7ffff7c01000-7ffff7c02000 rw-s 00000000 00:01 7                          /dev/zero (deleted)
7ffff7c02000-7ffff7c03000 rw-s 00000000 00:0e 1042                       anon_inode:[io_uring]
7ffff7d00000-7ffff7d01000 rw-p 00000000 00:00 0                          [anon:glibc: malloc arena]
7ffff7d01000-7ffff7d02000 rw-s 00000000 00:01 9                          [anon_shmem:pool]
7ffff7e00000-7ffff7e01000 r--p 00001000 fe:00 12                         /tmp/two\\012lines and a space
7ffff7ff5000-7ffff7ff9000 r--p 00000000 00:00 0                          [vvar]
7ffff7ff9000-7ffff7ffb000 r--p 00000000 00:00 0                          [vvar_vclock]
7ffff7ffb000-7ffff7ffd000 r-xp 00000000 00:00 0                          [vdso]
7ffff7ffd000-7ffff7ffe000 r-xp 00000000 00:00 0                          [uprobes]
7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap()
}

fn write_all(mappings: &[Mapping]) -> Vec<u8> {
    let mut out = Vec::new();
    mappings.iter().for_each(|mapping| mapping.write_line(&mut out));
    out
}

fn file(path: &str, deleted: bool) -> MapName {
    MapName::File { path: PathBuf::from(path), deleted }
}

#[test]
fn every_kind_of_name_is_read() {
    let names: Vec<MapName> =
        parse_maps(EXAMPLE.as_bytes()).unwrap().into_iter().map(|mapping| mapping.name).collect();
    let expected = [
        file("/usr/bin/cat", false),
        file("/usr/bin/cat", false),
        MapName::Heap,
        MapName::Anonymous,
        file("/memfd:agent", true),
        file("/dev/zero", true),
        file("anon_inode:[io_uring]", false),
        MapName::Other("anon:glibc: malloc arena".to_owned()),
        MapName::Other("anon_shmem:pool".to_owned()),
        file("/tmp/two\nlines and a space", false),
        MapName::Vvar("vvar".to_owned()),
        MapName::Vvar("vvar_vclock".to_owned()),
        MapName::Vdso,
        MapName::Uprobes,
        MapName::Stack,
        MapName::Vsyscall,
    ];
    assert_eq!(names, expected);
}

#[test]
fn every_column_is_read() {
    let mappings = parse_maps(EXAMPLE.as_bytes()).unwrap();
    let expected = Mapping {
        start: 0x5555_5555_6000,
        end: 0x5555_5555_b000,
        read: true,
        write: false,
        exec: true,
        shared: false,
        offset: 0x2000,
        dev: (0xfe, 0),
        inode: 1_179_690,
        name: file("/usr/bin/cat", false),
    };
    assert_eq!(mappings[1], expected);
    assert!(mappings[4].shared && mappings[4].write && !mappings[4].exec);
    assert!(mappings[4].name.is_memfd() && !mappings[5].name.is_memfd());
    assert_eq!(mappings[15].end, 0xffff_ffff_ff60_1000);
    assert!(!mappings[15].read && mappings[15].exec);
    assert_eq!(mappings[1].len_bytes(), 0x5000);
    assert!(mappings[1].contains(0x5555_5555_6000) && !mappings[1].contains(0x5555_5555_b000));
}

#[test]
fn the_example_is_written_back_byte_for_byte() {
    let mappings = parse_maps(EXAMPLE.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(write_all(&mappings)).unwrap(), EXAMPLE);
    assert_eq!(mappings[2].to_string(), EXAMPLE.lines().nth(2).unwrap());
}

#[test]
fn a_name_that_is_not_utf8_is_kept() {
    let line = b"1000-2000 r--p 00000000 00:01 5 /tmp/\xff\xfe\n";
    let mappings = parse_maps(line).unwrap();
    assert_eq!(mappings[0].name.path().unwrap().as_os_str().as_bytes(), b"/tmp/\xff\xfe");
}

#[test]
fn an_empty_list_is_one() {
    assert_eq!(parse_maps(b""), Ok(Vec::new()));
    assert_eq!(parse_smaps(b""), Ok(Vec::new()));
}

#[test]
fn what_the_kernel_does_not_write_is_refused_by_field() {
    let cases: &[(&str, Field, Problem)] = &[
        ("1000-2000 r--p 0 0:0 0 ", Field::LineEnd, Problem::Missing),
        ("\n", Field::Start, Problem::Missing),
        ("xyz\n", Field::Start, Problem::Malformed),
        ("-2000 r--p 0 0:0 0 \n", Field::Start, Problem::Missing),
        ("0x1000-2000 r--p 0 0:0 0 \n", Field::Start, Problem::Malformed),
        ("A000-B000 r--p 0 0:0 0 \n", Field::Start, Problem::Malformed),
        (" 1000-2000 r--p 0 0:0 0 \n", Field::Start, Problem::Malformed),
        ("1001-2000 r--p 0 0:0 0 \n", Field::Start, Problem::NotOnAPage),
        ("1000-\n", Field::End, Problem::Missing),
        ("1000-20000000000000000 r--p 0 0:0 0 \n", Field::End, Problem::TooLarge),
        ("1000-2001 r--p 0 0:0 0 \n", Field::End, Problem::NotOnAPage),
        ("2000-2000 r--p 0 0:0 0 \n", Field::End, Problem::NotAfterStart),
        ("3000-2000 r--p 0 0:0 0 \n", Field::End, Problem::NotAfterStart),
        ("1000-2000 r--P 0 0:0 0 \n", Field::Permissions, Problem::Malformed),
        ("1000-2000 r-- 0 0:0 0 \n", Field::Permissions, Problem::Malformed),
        ("1000-2000  r--p 0 0:0 0 \n", Field::Permissions, Problem::Malformed),
        ("1000-2000 r--p 800 0:0 0 \n", Field::Offset, Problem::NotOnAPage),
        ("1000-2000 r--p  0:0 0 \n", Field::Offset, Problem::Missing),
        ("1000-2000 r--p 0 00 0 \n", Field::Device, Problem::Malformed),
        ("1000-2000 r--p 0 0:100000000 0 \n", Field::Device, Problem::TooLarge),
        ("1000-2000 r--p 0 0:0 0\n", Field::Inode, Problem::Malformed),
        ("1000-2000 r--p 0 0:0 a \n", Field::Inode, Problem::Malformed),
        ("1000-2000 r--p 0 0:0 18446744073709551616 \n", Field::Inode, Problem::TooLarge),
        ("1000-2000 r--p 0 0:0 0 [heap\n", Field::Name, Problem::Malformed),
        ("1000-2000 r--p 0 0:0 0 []\n", Field::Name, Problem::Malformed),
    ];
    for (text, field, problem) in cases {
        let expected = MapsError { line: 1, field: *field, problem: *problem };
        assert_eq!(parse_maps(text.as_bytes()), Err(expected), "{text:?}");
    }
}

#[test]
fn mappings_that_overlap_are_refused_with_their_line() {
    let text = b"1000-3000 r--p 0 0:0 0 \n2000-4000 r--p 0 0:0 0 \n";
    let error = parse_maps(text).unwrap_err();
    assert_eq!(error, MapsError { line: 2, field: Field::Order, problem: Problem::Overlaps });
    assert_eq!(error.to_string(), "line 2: place of the mapping: overlapping the mapping above");
    let touching = b"1000-3000 r--p 0 0:0 0 \n3000-4000 r--p 0 0:0 0 \n";
    assert_eq!(parse_maps(touching).unwrap().len(), 2);
}

/// As Linux 6.12 wrote it on a machine with protection keys.
const SMAPS: &str = "\
7ffff7d00000-7ffff7d21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                  20 kB
Pss:                  18 kB
Pss_Dirty:            16 kB
Shared_Clean:          0 kB
Private_Clean:         4 kB
Private_Dirty:        16 kB
Referenced:           20 kB
Anonymous:            12 kB
Swap:                  8 kB
SwapPss:               8 kB
Locked:                4 kB
THPeligible:           0
ProtectionKey:        11
VmFlags: rd wr mr mw me ac wf sd 
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
Size:                  4 kB
VmFlags: ex ?? 
";

#[test]
fn the_values_of_an_entry_are_read() {
    let entries = parse_smaps(SMAPS.as_bytes()).unwrap();
    let [heap, vsyscall] = entries.as_slice() else { panic!("two entries, not {}", entries.len()) };
    assert_eq!(heap.mapping.name, MapName::Heap);
    assert_eq!(heap.protection_key, Some(11));
    assert_eq!((heap.rss_kib, heap.pss_kib, heap.swap_kib, heap.locked_kib), (20, 18, 8, 4));
    assert_eq!((heap.private_clean_kib, heap.private_dirty_kib, heap.anonymous_kib), (4, 16, 12));
    assert_eq!(heap.kernel_page_kib, 4);
    assert!(heap.flags.has(VmFlag::WIPE_ON_FORK) && !heap.flags.has(VmFlag::LOCKED));
    assert_eq!(heap.flags.to_string(), "ac me mr mw rd sd wf wr");
    assert_eq!(vsyscall.protection_key, None);
    assert!(vsyscall.flags.has(VmFlag::UNNAMED));
    assert_eq!(format!("{:?}", vsyscall.flags), "VmFlags(ex ??)");
}

#[test]
fn an_entry_that_the_kernel_does_not_write_is_refused() {
    const HEADER: &str = "1000-2000 r--p 00000000 00:00 0 \n";
    let cases: &[(&str, usize, Field, Problem)] = &[
        ("", 1, Field::VmFlags, Problem::Missing),
        ("Rss: 4 kB\n", 1, Field::VmFlags, Problem::Missing),
        ("Rss: 4 kB", 2, Field::LineEnd, Problem::Missing),
        ("Rss 4 kB\nVmFlags: rd \n", 2, Field::Key, Problem::Malformed),
        ("Rss: 4\nVmFlags: rd \n", 2, Field::Value, Problem::Malformed),
        ("Rss: -4 kB\nVmFlags: rd \n", 2, Field::Value, Problem::Malformed),
        ("ProtectionKey: 4294967296\nVmFlags: rd \n", 2, Field::Value, Problem::TooLarge),
        ("VmFlags: rd wrx \n", 2, Field::VmFlags, Problem::Malformed),
        ("VmFlags: RD \n", 2, Field::VmFlags, Problem::Malformed),
        ("VmFlags: rd \nVmFlags: rd \n", 3, Field::VmFlags, Problem::Repeated),
    ];
    for (values, line, field, problem) in cases {
        let expected = MapsError { line: *line, field: *field, problem: *problem };
        assert_eq!(parse_smaps(format!("{HEADER}{values}").as_bytes()), Err(expected), "{values:?}");
    }
}

#[test]
fn every_flag_has_a_bit_of_its_own() {
    let letters = (b'a'..=b'z').flat_map(|a| (b'a'..=b'z').map(move |b| [a, b]));
    let all: Vec<VmFlag> = letters.chain([*b"??"]).map(|code| VmFlag::from_letters(&code).unwrap()).collect();
    let mut set = VmFlags::default();
    for flag in &all {
        assert!(!set.has(*flag), "{flag}");
        set.insert(*flag);
    }
    assert!(set.iter().eq(all.iter().copied()));
    for flag in &all {
        set.remove(*flag);
        assert!(!set.has(*flag), "{flag}");
    }
    assert_eq!(set, VmFlags::default());
}

#[test]
fn this_process_is_read_and_written_back() {
    let local = 7u8;
    let address = std::ptr::from_ref(&local).addr() as u64;
    let code = parse_maps as fn(&[u8]) -> Result<Vec<Mapping>, MapsError> as usize as u64;
    let mappings = read_maps(own_pid()).unwrap();
    assert!(mappings.iter().any(|mapping| mapping.write && mapping.contains(address)));
    let text = mappings.iter().find(|mapping| mapping.contains(code)).unwrap();
    assert!(text.exec && !text.write);
    assert_eq!(text.name.path(), Some(std::env::current_exe().unwrap().as_path()));
    assert_eq!(parse_maps(&write_all(&mappings)).unwrap(), mappings);

    let raw = std::fs::read("/proc/thread-self/maps").unwrap();
    assert_eq!(write_all(&parse_maps(&raw).unwrap()), raw);
}

#[test]
fn the_entries_of_this_process_agree_with_its_mappings() {
    let entries = read_smaps(own_pid()).unwrap();
    let text = [*b"rd", *b"wr", *b"ex", *b"sh"].map(|letters| VmFlag::from_letters(&letters).unwrap());
    for entry in &entries {
        let mapping = &entry.mapping;
        let bits = [mapping.read, mapping.write, mapping.exec, mapping.shared];
        assert_eq!(text.map(|flag| entry.flags.has(flag)), bits, "{mapping}");
    }
    let stack = entries.iter().find(|entry| entry.mapping.name == MapName::Stack).unwrap();
    assert!(stack.flags.has(VmFlag::GROWS_DOWN));
    assert!(stack.rss_kib > 0 && stack.anonymous_kib > 0 && stack.kernel_page_kib >= 4);
}

#[test]
fn an_error_names_the_process() {
    // No kernel gives out this number: PID_MAX_LIMIT is 2^22.
    let pid = i32::MAX;
    let error = read_maps(pid).unwrap_err();
    assert_eq!(error.to_string(), "/proc/2147483647/maps could not be read");
    let ReadMapsError::Io { source, .. } = error else { panic!("not an I/O error: {error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
    assert!(matches!(read_smaps(pid), Err(ReadMapsError::Io { file: "smaps", .. })));
}

/// A name that can be told apart when written (see the top of `maps.rs`).
fn any_name() -> impl Strategy<Value = MapName> {
    let bytes =
        proptest::collection::vec(any::<u8>().prop_filter("a path has no NUL", |&byte| byte != 0), 0..40);
    let path = bytes
        .prop_map(|bytes| PathBuf::from(OsString::from_vec([b"/".as_slice(), &bytes].concat())))
        .prop_filter("ambiguous", |path| {
            let bytes = path.as_os_str().as_bytes();
            !bytes.windows(4).any(|part| part == b"\\012") && !bytes.ends_with(b" (deleted)")
        });
    prop_oneof![
        Just(MapName::Anonymous),
        Just(MapName::Heap),
        Just(MapName::Stack),
        Just(MapName::Vdso),
        Just(MapName::Vsyscall),
        Just(MapName::Uprobes),
        "vvar[a-z_]{0,8}".prop_map(MapName::Vvar),
        "anon:[ !#%-Z^-_a-~]{1,40}".prop_map(MapName::Other),
        (path, any::<bool>()).prop_map(|(path, deleted)| MapName::File { path, deleted }),
    ]
}

prop_compose! {
    /// A mapping without its place: the gap before it and its length, in pages.
    fn any_mapping()(
        gap in 0u64..1 << 20,
        pages in 1u64..1 << 20,
        bits in any::<[bool; 4]>(),
        offset in 0u64..1 << 52,
        dev in any::<(u32, u32)>(),
        inode in any::<u64>(),
        name in any_name(),
    ) -> (u64, Mapping) {
        let [read, write, exec, shared] = bits;
        (gap, Mapping { start: 0, end: pages << 12, read, write, exec, shared, offset: offset << 12, dev, inode, name })
    }
}

proptest! {
    #[test]
    fn every_list_is_read_back_as_it_was_written(
        parts in proptest::collection::vec(any_mapping(), 0..20)
    ) {
        let mut mappings = Vec::new();
        let mut at = 0;
        for (gap, mut mapping) in parts {
            mapping.start = at + (gap << 12);
            mapping.end += mapping.start;
            at = mapping.end;
            mappings.push(mapping);
        }
        prop_assert_eq!(parse_maps(&write_all(&mappings)).unwrap(), mappings);
    }

    #[test]
    fn a_text_that_is_accepted_means_what_its_writing_means(
        text in "([0-9a-f]{1,5}000-[0-9a-f]{1,6}000 [r-][w-][x-][ps] [0-9a-f]{0,3}000 [0-9a-f]{1,8}:[0-9a-f]{1,2} [0-9]{1,20}  {0,9}\\PC{0,30}\n){0,3}"
    ) {
        if let Ok(mappings) = parse_maps(text.as_bytes()) {
            prop_assert_eq!(parse_maps(&write_all(&mappings)).unwrap(), mappings);
        }
    }

    #[test]
    fn no_text_is_too_strange(text in any::<Vec<u8>>()) {
        let _ = parse_maps(&text);
        let _ = parse_smaps(&text);
    }
}
