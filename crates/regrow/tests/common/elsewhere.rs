//! Has another process write the files that a test executes. A process that another test makes at that moment would inherit a file that
//! this one has open for writing, and the kernel executes no such file (`ETXTBSY`).

use std::path::Path;
use std::process::Command;

/// Writes a file that everybody may execute.
pub(crate) fn write(path: &Path, text: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf %s \"$0\" >\"$1\" && chmod 755 \"$1\"", text]).arg(path);
    assert!(shell.status().expect("the shell starts").success(), "{}", path.display());
}
