//! What passes between daemon and client: whatever the bytes are, they are read or refused, and what is read is written
//! again as the same bytes. Also with the header put before them, so that the fields are reached without finding it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use regrow_daemon::wire::{MAGIC, MAX_TARGETS, ToClient, ToDaemon, VERSION};

fn check(bytes: &[u8]) {
    if let Ok(message) = ToDaemon::from_bytes(bytes) {
        assert_eq!(message.to_bytes(), bytes);
        let run = match &message {
            ToDaemon::Run(run) => Some(&**run),
            ToDaemon::Once(once) => Some(&once.run),
            _ => None,
        };
        if let Some(run) = run {
            assert!(run.targets.len() <= MAX_TARGETS);
            let names = [Some(&run.program), run.arg0.as_ref(), Some(&run.directory)];
            assert!(names.into_iter().flatten().all(|name| !name.contains(&0)));
            for strings in [&run.args, &run.env] {
                assert!(strings.as_bytes().last().is_none_or(|&last| last == 0));
            }
        }
        // No message means something in both directions.
        assert!(ToClient::from_bytes(bytes).is_err());
    }
    if let Ok(message) = ToClient::from_bytes(bytes) {
        assert_eq!(message.to_bytes(), bytes);
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Some((&kind, fields)) = bytes.split_first() {
        let header = [&MAGIC[..], &VERSION.to_le_bytes(), &[kind, 0]].concat();
        check(&[&header[..], fields].concat());
    }
});
