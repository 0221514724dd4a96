//! The reader of `/proc/PID/maps` and `/proc/PID/smaps` takes any bytes: it accepts or refuses, and what it
//! accepts keeps its invariants and means the same when it is written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use regrow_sys::maps::{Mapping, parse_maps, parse_smaps};

/// Mappings ascend and hold at least a page.
fn check_order<'a>(mappings: impl Iterator<Item = &'a Mapping>) {
    let mut floor = 0;
    for mapping in mappings {
        assert!(floor <= mapping.start && mapping.start < mapping.end, "{mapping}");
        assert!(mapping.start.is_multiple_of(4096) && mapping.end.is_multiple_of(4096), "{mapping}");
        floor = mapping.end;
    }
}

fuzz_target!(|text: &[u8]| {
    let lines = text.iter().filter(|&&byte| byte == b'\n').count();
    match parse_maps(text) {
        Ok(mappings) => {
            assert_eq!(mappings.len(), lines);
            check_order(mappings.iter());
            let mut written = Vec::new();
            mappings.iter().for_each(|mapping| mapping.write_line(&mut written));
            assert_eq!(parse_maps(&written).as_ref(), Ok(&mappings));
        }
        Err(error) => assert!((1..=lines + 1).contains(&error.line), "{error}"),
    }
    match parse_smaps(text) {
        Ok(entries) => check_order(entries.iter().map(|entry| &entry.mapping)),
        Err(error) => assert!((1..=lines + 1).contains(&error.line), "{error}"),
    }
});
