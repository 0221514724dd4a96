//! Python applications: imported once, in an image, and called in a fresh process for every request.
//!
//! ```text
//!  image:  python3, application.py, the application's own module
//!  run:    `regrow_application:serve`, with the variables and descriptors of a CGI script
//! ```

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use regrow::{Command, Strings, Warm};
use regrow_front::{DESCRIPTOR, order, python};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{DumpableBehavior, dumpable_behavior};

use crate::error::WebError;
use crate::settings::Application;
use crate::variables::Variables;

/// What speaks CGI on one side and the application's interface on the other.
const SOURCE: &str = include_str!("application.py");
/// What the smallest pipe takes at once.
const PIPE_BUF: usize = 4096;
/// What a run calls.
const CALL: &[u8] = b"regrow_application:serve\n";

/// An application, and the front end that imports it.
pub(crate) struct Prepared {
    command: Vec<OsString>,
    /// The source, where the command reads it.
    _source: Option<File>,
    front_end: Arc<Warm>,
}

impl Prepared {
    pub(crate) fn new(application: &Application, directory: &Path) -> Result<Self, WebError> {
        let nul = |_| WebError::Setting("the application's name has a NUL byte in it");
        let (interface, name) = (application.interface.name(), application.name.as_str());
        let setup = format!("builtins:exec:{}", BASE64_STANDARD.encode(bootstrap(interface, name)));
        let paths = [directory.as_os_str().as_bytes().to_vec()];
        let preparation = python::Preparation {
            skip: 1,
            setup: Some(&setup),
            paths: &paths,
            ..python::Preparation::default()
        };
        let mut args = Strings::new();
        preparation.args().map_err(nul)?.iter().for_each(|arg: &CString| args.push_c_str(arg));
        let cannot = |source| WebError::System { what: "the source for applications cannot be kept", source };
        let (source, code) = source_code().map_err(cannot)?;
        let command: Vec<OsString> = [
            application.python.clone().into_os_string(),
            "-c".into(),
            code.into(),
            interface.into(),
            name.into(),
        ]
        .to_vec();
        let front_end = Arc::new(Warm { args, variables: python::NAMES.patterns(), directory: None });
        Ok(Self { command, _source: source, front_end })
    }

    /// The command line without an image: the same file does both.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.command.clone()
    }

    /// Has a command start in the image, with the order to serve one request.
    pub(crate) fn warm(&self, command: &mut Command, variables: &Variables) -> io::Result<()> {
        let entries: Vec<Vec<u8>> =
            variables.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect();
        let mut bytes = Vec::with_capacity(4096);
        let argv = self.command.iter().take(1).map(|word| word.as_bytes());
        order::write(argv, entries.iter().map(Vec::as_slice), CALL, &mut bytes);
        command.fd(readable(&bytes)?, DESCRIPTOR).warm(Arc::clone(&self.front_end));
        Ok(())
    }
}

/// What Python is to execute: it reads the source from a file of this process, which nobody can change. An argument of that length would be
/// copied for every run. A process whose files others may not look at has it be one.
fn source_code() -> io::Result<(Option<File>, String)> {
    if dumpable_behavior()? != DumpableBehavior::Dumpable {
        return Ok((None, SOURCE.to_owned()));
    }
    let mut file =
        File::from(memfd_create("regrow-application", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(SOURCE.as_bytes())?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    // The number that this process has where /proc was mounted may be another one than its own.
    let process = std::fs::read_link("/proc/self")?;
    let code = format!("exec(open('/proc/{}/fd/{}').read())", process.display(), file.as_raw_fd());
    Ok((Some(file), code))
}

/// A descriptor that this can be read from. A pipe has room for a little, and costs less than a file.
fn readable(bytes: &[u8]) -> io::Result<OwnedFd> {
    if bytes.len() <= PIPE_BUF {
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(bytes)?;
        return Ok(reader.into());
    }
    let mut file = File::from(memfd_create("regrow-order", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The code that makes a module of the source and has it import the application.
fn bootstrap(interface: &str, name: &str) -> String {
    // What Rust escapes in ASCII, Python reads the same way.
    format!(
        "import sys\nregrow = type(sys)('regrow_application')\nsys.modules['regrow_application'] = regrow\n\
         exec(compile({SOURCE:?}, '<regrow_application>', 'exec'), regrow.__dict__)\nregrow.prepare({interface:?}, {name:?})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_an_argument_in_every_locale() {
        assert!(SOURCE.is_ascii());
        // The kernel's limit for one argument is 128 KiB, and base64 takes a third more.
        assert!(bootstrap("wsgi", "app:app").len() < 90 * 1024);
    }
}
