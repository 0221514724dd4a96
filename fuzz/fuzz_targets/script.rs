//! The first line of a script can be any bytes: what is read from it is made of them, and only the
//! first 256 count.

#![no_main]

use libfuzzer_sys::fuzz_target;
use regrow_image::script::{HEAD_BYTES, ScriptHead, parse_head};

fn is_blank(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}

fn position(whole: &[u8], part: &[u8]) -> Option<usize> {
    whole.windows(part.len().max(1)).position(|window| window.starts_with(part))
}

fuzz_target!(|bytes: &[u8]| {
    let head = parse_head(bytes);
    let mut padded = bytes.to_vec();
    padded.resize(HEAD_BYTES, 0);
    assert_eq!(head, parse_head(&padded));
    assert_eq!(head == ScriptHead::NoScript, !bytes.starts_with(b"#!"));
    let ScriptHead::Script(line) = head else { return };
    assert!(!line.interpreter.iter().any(|byte| b" \t\n\0".contains(byte)));
    let rest = &padded[2..];
    let start = rest.iter().position(|byte| !is_blank(Some(byte)));
    assert!(start.is_some_and(|start| rest[start..].starts_with(&line.interpreter)));
    let Some(argument) = line.argument else { return };
    assert!(!argument.iter().any(|byte| b"\n\0".contains(byte)));
    assert!(!is_blank(argument.first()));
    // Blanks at the end are dropped where a newline follows, and kept before a NUL.
    let line_end = rest.iter().position(|byte| matches!(byte, b'\n' | 0));
    let has_newline = line_end.is_some_and(|end| rest[end] == b'\n');
    assert!(!has_newline || !is_blank(argument.last()));
    let name_end = start.unwrap_or_default() + line.interpreter.len();
    assert!(is_blank(rest.get(name_end)));
    assert!(position(&rest[name_end..], &argument).is_some());
});
