//! Comparisons of hand-made mappings, flags and pages.

use regrow_sys::maps::parse_smaps;

use super::*;

fn vma(start: u64, end: u64, flags: u32) -> VmaEntry {
    VmaEntry { start, end, flags, ..VmaEntry::default() }
}

/// A mapping as the kernel tells of it, with these flags.
fn smaps(entries: &[(&str, &str)]) -> Vec<SmapsEntry> {
    let text: String = entries
        .iter()
        .map(|(range, flags)| format!("{range} rw-p 00000000 00:00 0 \nVmFlags: {flags} \n"))
        .collect();
    parse_smaps(text.as_bytes()).expect("as the kernel writes it")
}

#[test]
fn equal_mappings_do_not_differ() {
    let table = [vma(0x1000, 0x2000, vma_flags::READ), vma(0x3000, 0x4000, vma_flags::WRITE)];
    assert!(compare_mappings(&table, &table).is_ok());
    assert!(compare_mappings(&[], &[]).is_ok());
}

#[test]
fn a_mapping_that_is_gone_changed_or_new_is_named() {
    let (one, two) = (vma(0x1000, 0x2000, vma_flags::READ), vma(0x3000, 0x4000, vma_flags::WRITE));
    let changed = vma(0x1000, 0x2000, vma_flags::READ | vma_flags::WRITE);
    let named = |want: &[VmaEntry], have: &[VmaEntry]| match compare_mappings(want, have) {
        Err(Difference::Mapping(vma)) => vma,
        other => panic!("{other:?}"),
    };
    assert_eq!(named(&[one, two], &[one]), two);
    assert_eq!(named(&[one], &[one, two]), two);
    assert_eq!(named(&[one], &[changed]), changed);
    assert_eq!(named(&[one, two], &[two]), two);
}

#[test]
fn advice_against_huge_pages_makes_no_other_mapping() {
    let whole = [vma(0x1000, 0x4000, vma_flags::READ)];
    let split = [
        vma(0x1000, 0x2000, vma_flags::READ),
        vma(0x2000, 0x3000, vma_flags::READ | vma_flags::NO_HUGE),
        vma(0x3000, 0x4000, vma_flags::READ),
    ];
    assert!(compare_mappings(&whole, &split).is_ok());
    assert!(compare_mappings(&split, &whole).is_ok());
}

#[test]
fn flags_that_a_run_left_are_told_by_the_kernels_letters() {
    let want = smaps(&[("1000-3000", "rd wr mr mw me ac")]);
    let have = smaps(&[("1000-3000", "rd wr mr mw me ac dd")]);
    match compare_flags(&want, have.iter()) {
        Err(Difference::Flags { start, have, want }) => {
            assert_eq!(start, 0x1000);
            assert!(have.contains("dd") && !want.contains("dd"), "{have} {want}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_follows_from_writing_alone_is_no_difference() {
    let want = smaps(&[("1000-3000", "rd wr mr mw me")]);
    let have = smaps(&[("1000-3000", "rd wr mr mw me ac sd uw")]);
    assert!(compare_flags(&want, have.iter()).is_ok());
}

#[test]
fn the_pieces_of_a_split_mapping_are_compared_one_by_one() {
    let want = smaps(&[("1000-3000", "rd wr mr mw me")]);
    let same = smaps(&[("1000-2000", "rd wr mr mw me"), ("2000-3000", "rd wr mr mw me")]);
    assert!(compare_flags(&want, same.iter()).is_ok());
    let other = smaps(&[("1000-2000", "rd wr mr mw me"), ("2000-3000", "rd wr mr mw me dc")]);
    assert!(matches!(compare_flags(&want, other.iter()), Err(Difference::Flags { start: 0x2000, .. })));
}

#[test]
fn advice_for_huge_pages_is_told_from_other_flags() {
    let flags =
        |have: &str, want: &str| Difference::Flags { start: 0, have: have.to_owned(), want: want.to_owned() };
    assert!(flags("rd wr hg", "rd wr").is_huge_page_advice());
    assert!(flags("rd wr nh", "rd wr hg").is_huge_page_advice());
    assert!(!flags("rd wr hg dd", "rd wr").is_huge_page_advice());
    assert!(!Difference::Missing { address: 0 }.is_huge_page_advice());
}

#[test]
fn the_first_byte_that_differs_is_found() {
    let want = vec![0u8; 3 * PAGE_LEN];
    assert_eq!(first_difference(&want, &want), None);
    for at in [0, 1, PAGE_LEN - 1, PAGE_LEN, 2 * PAGE_LEN + 17, 3 * PAGE_LEN - 1] {
        let mut have = want.clone();
        have[at] = 1;
        *have.last_mut().expect("three pages") = 1;
        assert_eq!(first_difference(&have, &want), Some(((at / PAGE_LEN) as u64, at % PAGE_LEN)));
    }
}
