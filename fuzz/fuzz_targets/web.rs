//! What a script writes and what a client asks for are any bytes: the head of a reply is refused or holds together, however it comes,
//! and no path leads out of the folder of the scripts.

#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use regrow_web::{cgi_head, target};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((found, length))) = cgi_head::parse(bytes) {
        assert!(length <= bytes.len() && (100..=999).contains(&found.status));
        assert!(found.fields.iter().all(|(name, value)| {
            !name.is_empty() && !name.contains(&b'\n') && !value.contains(&b'\n') && !value.contains(&b'\r')
        }));
        // What follows is the body: it changes nothing.
        assert_eq!(cgi_head::parse(&bytes[..length]), Ok(Some((found, length))));
        assert_eq!(cgi_head::parse(&bytes[..length - 1]), Ok(None));
    }
    if let Ok(path) = target::decode(bytes) {
        assert!(path.len() <= bytes.len() && !path.contains(&0));
    }
    let root = Path::new("/usr/share/misc");
    if let Ok(found) = target::find(root, bytes) {
        assert!(found.script.starts_with(root));
    }
});
