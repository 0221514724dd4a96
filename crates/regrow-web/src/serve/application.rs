//! Python applications: an image imports the application once, and a fresh process answers each request.
//!
//! ```text
//!  image    python3 + the module `regrow_application` + the application's own module
//!  process  calls `regrow_application:serve`, with the variables and descriptors of a CGI script
//! ```
//!
//! The source of `regrow_application` stands in the parts of `application/`, which become one module: an interpreter reads one
//! text, and an application sees one module. A part names what it uses of the parts before it in imports that only the type
//! checker reads.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use regrow::{Command, Strings, Warm};
use regrow_front::{DESCRIPTOR, order, python};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{DumpableBehavior, dumpable_behavior};

use crate::error::WebError;
use crate::job::Variables;
use crate::settings::ApplicationSettings;

/// The parts of the module that speaks CGI on one side and the application's interface on the other.
const PARTS: [&str; 6] = [
    include_str!("application/reply.py"),
    include_str!("application/request.py"),
    include_str!("application/wsgi.py"),
    include_str!("application/event_loop.py"),
    include_str!("application/asgi.py"),
    include_str!("application/serve.py"),
];
/// The line between the description of a part and its code. Python accepts it only at the start of a module.
const FUTURE: &str = "from __future__ import annotations\n";
/// The lines before the imports that only the type checker reads.
const TYPES: &str = "TYPE_CHECKING = False\nif TYPE_CHECKING:\n";
/// The smallest capacity of a pipe.
const PIPE_BUF: usize = 4096;
/// The function that the front end calls in each process.
const CALL: &[u8] = b"regrow_application:serve\n";

/// An application, and the front end that imports it.
pub(crate) struct WarmApplication {
    name: Rc<str>,
    command: Vec<OsString>,
    /// The file from which the command reads the source.
    _source: Option<File>,
    front_end: Arc<Warm>,
}

impl WarmApplication {
    pub(crate) fn new(application: &ApplicationSettings, directory: &Path) -> Result<Self, WebError> {
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
        let front_end = Arc::new(Warm { args, variables: python::NAMES.patterns(), ..Warm::default() });
        Ok(Self { name: name.into(), command, _source: source, front_end })
    }

    /// The command line that answers a request without an image.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.command.clone()
    }

    /// The command line that only imports the application.
    pub(crate) fn check_command(&self) -> Vec<OsString> {
        let mut command = self.command.clone();
        // Behind the interpreter, `-c` and the code.
        command.insert(3, "check".into());
        command
    }

    /// The name of the application.
    pub(crate) fn name(&self) -> Rc<str> {
        Rc::clone(&self.name)
    }

    /// Has a command start from the image, with the order to serve one request.
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

/// The code that Python executes: it reads the source from a sealed file of the gateway, because the kernel would copy a long
/// argument for every process. If other processes may not open the files of the gateway, the source itself is the code.
fn source_code() -> io::Result<(Option<File>, String)> {
    if dumpable_behavior()? != DumpableBehavior::Dumpable {
        return Ok((None, source()));
    }
    let mut file =
        File::from(memfd_create("regrow-application", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(source().as_bytes())?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    // /proc may belong to another PID namespace, in which the gateway has another number.
    let process = std::fs::read_link("/proc/self")?;
    let code = format!("exec(open('/proc/{}/fd/{}').read())", process.display(), file.as_raw_fd());
    Ok((Some(file), code))
}

/// A descriptor from which a process reads these bytes: a pipe if it has room for them, because it is cheaper than a file.
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

/// The source of the whole module.
fn source() -> String {
    FUTURE.to_owned() + &PARTS.map(code).concat()
}

/// What the interpreter needs of a part: neither its description nor the imports for the type checker, which take time to read.
fn code(part: &str) -> String {
    let (_description, code) = part.split_once(FUTURE).unwrap_or(("", part));
    let (imports, rest) = code.split_once(TYPES).unwrap_or((code, ""));
    let rest = rest.split_inclusive('\n').skip_while(|line| line.starts_with([' ', '\n']));
    std::iter::once(imports).chain(rest).collect()
}

/// The code that makes the module, and has it import the application.
fn bootstrap(interface: &str, name: &str) -> String {
    // Python reads Rust's escapes of ASCII as Rust does.
    let source = source();
    format!(
        "import sys\nregrow = type(sys)('regrow_application')\nsys.modules['regrow_application'] = regrow\n\
         exec(compile({source:?}, '<regrow_application>', 'exec'), regrow.__dict__)\nregrow.prepare({interface:?}, {name:?})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_has_the_code_of_a_part_and_nothing_else() {
        let part = [
            "\"\"\"For people.\"\"\"\n\n",
            FUTURE,
            "\nimport os\n\n",
            TYPES,
            "    from reply import Reply\n\n    Error = str\n\n",
            "PIECE = 1\n\n\ndef one():\n    return 1\n",
        ];
        assert_eq!(code(&part.concat()), "\nimport os\n\nPIECE = 1\n\n\ndef one():\n    return 1\n");
    }

    #[test]
    fn the_source_is_an_argument_in_every_locale() {
        assert!(source().is_ascii());
        assert_eq!(source().matches(FUTURE).count(), 1);
        assert!(PARTS.iter().all(|part| part.contains(FUTURE) && part.contains(TYPES)));
        // The kernel's limit for one argument is 128 KiB, and base64 takes a third more.
        assert!(bootstrap("wsgi", "app:app").len() < 90 * 1024);
    }
}
