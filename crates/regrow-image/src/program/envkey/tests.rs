//! Which entries are chosen, and that the table says what it should of well-known names.

use std::ffi::CString;

use proptest::prelude::*;

use super::*;

fn env(entries: &[&str]) -> Vec<CString> {
    entries.iter().map(|entry| CString::new(*entry).expect("no NUL")).collect()
}

fn chosen(names: &KeyNames, entries: &[&str]) -> Vec<String> {
    let env = env(entries);
    let entries = names.select(env.iter().map(CString::as_c_str));
    entries.into_iter().map(|entry| entry.to_str().expect("text").to_owned()).collect()
}

#[test]
fn ordinary_variables_are_left_out() {
    let entries = ["PATH=/bin", "HOME=/root", "LANG=C", "LC_ALL=C", "LS_COLORS=x", "TERM=xterm", "PWD=/"];
    assert!(chosen(&KeyNames::default(), &entries).is_empty());
}

#[test]
fn key_entries_are_sorted_by_name() {
    let entries = ["OMP_NUM_THREADS=2", "PATH=/bin", "MALLOC_ARENA_MAX=1", "LD_PRELOAD=/x.so"];
    let expected = ["LD_PRELOAD=/x.so", "MALLOC_ARENA_MAX=1", "OMP_NUM_THREADS=2"];
    assert_eq!(chosen(&KeyNames::default(), &entries), expected);
    let env = env(&entries);
    assert_eq!(key_variables(env.iter().map(CString::as_c_str)).len(), 3);
}

#[test]
fn duplicates_keep_their_order() {
    let entries = ["LD_PRELOAD=b", "GLIBC_TUNABLES=1", "LD_PRELOAD=a", "LD_PRELOAD=b"];
    let expected = ["GLIBC_TUNABLES=1", "LD_PRELOAD=b", "LD_PRELOAD=a", "LD_PRELOAD=b"];
    assert_eq!(chosen(&KeyNames::default(), &entries), expected);
}

#[test]
fn odd_entries() {
    let entries = ["LD_PRELOAD", "", "=x", "=LD_PRELOAD=x", "XLD_PRELOAD=x", "LD_=", "LD=1", "ld_preload=1"];
    assert_eq!(chosen(&KeyNames::default(), &entries), ["LD_=", "LD_PRELOAD"]);
}

#[test]
fn a_value_is_not_taken_for_a_name() {
    assert!(chosen(&KeyNames::default(), &["A=LD_PRELOAD=x", "B=MALLOC_CONF"]).is_empty());
}

#[test]
fn learned_names_are_added() {
    let names = KeyNames::with_learned(&["G_DEBUG", "", "LD_PRELOAD", "A=B"]);
    let entries = ["G_DEBUG=all", "G_DEBUGX=1", "A=1", "A=B=2", "PATH=/bin", "=x", ""];
    assert_eq!(chosen(&names, &entries), ["A=1", "A=B=2", "G_DEBUG=all"]);
    assert_eq!(names.learned().collect::<Vec<_>>(), [b"A".as_slice(), b"G_DEBUG"]);
    assert_eq!(names, KeyNames::with_learned(&["LD_PRELOAD", "G_DEBUG", "A", "G_DEBUG"]));
}

#[test]
fn names_that_the_loader_reads_are_in_the_table() {
    // glibc 2.36: process_envvars and the environment aliases of its tunables.
    let loader = "WARN DEBUG AUDIT VERBOSE PRELOAD PROFILE BIND_NOW BIND_NOT SHOW_AUXV HWCAP_MASK ORIGIN_PATH \
                  LIBRARY_PATH DEBUG_OUTPUT DYNAMIC_WEAK PROFILE_OUTPUT TRACE_LOADED_OBJECTS";
    let aliases = "CHECK_ TOP_PAD_ PERTURB_ MMAP_THRESHOLD_ TRIM_THRESHOLD_ MMAP_MAX_ ARENA_MAX ARENA_TEST \
                   TCACHE_COUNT TRACE";
    let names = KeyNames::default();
    for name in loader.split_whitespace() {
        assert!(names.contains(format!("LD_{name}").as_bytes()), "{name}");
    }
    for name in aliases.split_whitespace() {
        assert!(names.contains(format!("MALLOC_{name}").as_bytes()), "{name}");
    }
}

#[test]
fn late_variables_are_not_in_the_key() {
    for row in LATE_VARIABLES {
        assert!(!in_table(row.pattern.text().as_bytes()), "{}", row.pattern);
    }
    assert!(KeyNames::with_learned(&["LOCPATH"]).contains(b"LOCPATH"));
}

#[test]
fn table_has_no_row_that_is_never_first() {
    for (index, row) in KEY_VARIABLES.iter().enumerate() {
        let first = rows_of(row.pattern.text().as_bytes()).next().expect("the row itself");
        assert_eq!(first.pattern, row.pattern, "row {index}");
        assert!(!row.who_reads.is_empty() && !row.why.is_empty());
        assert!(!row.pattern.text().contains('='));
    }
}

#[test]
fn acting_variables_are_named() {
    let acts = |entries: &[&str]| {
        let env = env(entries);
        let entry = acts_before_main(env.iter().map(CString::as_c_str));
        entry.map(|entry| entry.to_str().expect("text").to_owned())
    };
    assert_eq!(acts(&["LD_PRELOAD=/x.so", "MALLOC_ARENA_MAX=1", "GNUTLS_CPUID_OVERRIDE=1"]), None);
    assert_eq!(acts(&["A=1", "LD_DEBUG=libs", "LD_AUDIT=/a"]).as_deref(), Some("LD_DEBUG=libs"));
    assert_eq!(acts(&["LD_TRACE_LOADED_OBJECTS=1"]).as_deref(), Some("LD_TRACE_LOADED_OBJECTS=1"));
    assert_eq!(acts(&["OMP_DISPLAY_ENV=true"]).as_deref(), Some("OMP_DISPLAY_ENV=true"));
}

#[test]
fn relative_libraries_depend_on_the_working_directory() {
    let relative = |entry: &str| {
        let env = env(&["PATH=bin", entry]);
        loads_from_working_directory(env.iter().map(CString::as_c_str)).is_some()
    };
    let yes =
        ["LD_LIBRARY_PATH=lib", "LD_LIBRARY_PATH=/a:", "LD_LIBRARY_PATH=/a::/b", "LD_LIBRARY_PATH=/a;b"];
    let yes = yes.iter().chain(&["LD_PRELOAD=./x.so", "LD_PRELOAD=/a.so lib/b.so", "LD_AUDIT=a/b.so"]);
    for entry in yes {
        assert!(relative(entry), "{entry}");
    }
    let no = ["LD_LIBRARY_PATH", "LD_LIBRARY_PATH=", "LD_LIBRARY_PATH=/a:/b", "LD_LIBRARY_PATH=$ORIGIN/x:/a"];
    let no = no.iter().chain(&["LD_PRELOAD=x.so", "LD_PRELOAD=/a.so:b.so ", "LD_AUDIT=", "LD_BIND_NOW=a/b"]);
    for entry in no {
        assert!(!relative(entry), "{entry}");
    }
}

#[test]
fn markdown_has_every_row() {
    let text = markdown();
    for row in KEY_VARIABLES.iter().chain(LATE_VARIABLES) {
        assert!(text.contains(&format!("| `{}` | {} |", row.pattern, row.who_reads)), "{}", row.pattern);
    }
    let rows = text.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, KEY_VARIABLES.len() + LATE_VARIABLES.len());
}

fn entry() -> impl Strategy<Value = CString> {
    let name = prop_oneof!["LD_[A-C]", "MALLOC_[A-B]", "[A-C]", Just("LEARNED".to_owned()), ""];
    (name, proptest::option::of("[a-c=]{0,2}")).prop_map(|(name, value)| {
        let entry = value.map_or(name.clone(), |value| format!("{name}={value}"));
        CString::new(entry).expect("no NUL")
    })
}

proptest! {
    #[test]
    fn choice_is_exact_stable_and_blind_to_the_order_of_names(
        env in proptest::collection::vec(entry(), 0..24),
        seed in any::<u64>(),
    ) {
        let names = KeyNames::with_learned(&["LEARNED"]);
        let selected = names.select(env.iter().map(CString::as_c_str));
        // What is chosen: exactly the entries of key names.
        let of = |name: &[u8]| {
            let same = |entry: &&CStr| name_of(entry.to_bytes()) == name;
            env.iter().map(CString::as_c_str).filter(same).collect::<Vec<_>>()
        };
        let mut expected = Vec::new();
        for name in env.iter().map(|entry| name_of(entry.to_bytes())).collect::<BTreeSet<_>>() {
            if name == b"LEARNED" || name.starts_with(b"LD_") || name.starts_with(b"MALLOC_") {
                expected.extend(of(name));
            }
        }
        prop_assert_eq!(&selected, &expected);
        // Moving whole names among each other changes nothing.
        let mut moved: Vec<&CStr> = env.iter().map(CString::as_c_str).collect();
        moved.sort_by_key(|entry| {
            let name = name_of(entry.to_bytes()).iter().fold(seed, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            name.rotate_left(17)
        });
        prop_assert_eq!(names.select(moved), selected);
    }
}
