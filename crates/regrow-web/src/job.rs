//! A job: the process that a request asks for. `ask` makes it, `serve` starts it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::request_body::StdinSource;

/// Names of environment variables with their values.
pub(crate) type Variables = Vec<(Vec<u8>, Vec<u8>)>;

/// The process that a request asks for.
pub(crate) struct RequestJob {
    /// The name of the program, or of the application, in the log.
    pub(crate) name: Rc<str>,
    /// The program, then its arguments.
    pub(crate) command: Vec<OsString>,
    /// The working directory, if it is not the gateway's own.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) variables: Variables,
    pub(crate) stdin: StdinSource,
    /// Whether standard error is part of the reply.
    pub(crate) joined: bool,
}

impl RequestJob {
    /// A job whose standard error goes to the log.
    pub(crate) fn new(
        command: Vec<OsString>,
        directory: Option<PathBuf>,
        variables: Variables,
        stdin: StdinSource,
    ) -> Self {
        let name = Rc::from(program_of(&command).to_string_lossy());
        Self { name, command, directory, variables, stdin, joined: false }
    }

    /// The same job under another name.
    pub(crate) fn named(self, name: Rc<str>) -> Self {
        Self { name, ..self }
    }
}

/// The program of a command line.
pub(crate) fn program_of(command: &[OsString]) -> &Path {
    command.first().map_or(Path::new(""), |word| Path::new(word))
}

/// The folder of a script, which is its working directory (RFC 3875, 7.2).
pub(crate) fn folder_of(script: &Path) -> Option<PathBuf> {
    script.parent().filter(|folder| folder.is_absolute()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_starts_in_its_own_folder_and_a_program_of_the_search_path_anywhere() {
        assert_eq!(folder_of(Path::new("/srv/cgi/a.pl")), Some(PathBuf::from("/srv/cgi")));
        assert_eq!(folder_of(Path::new("gitweb")), None);
        assert_eq!(program_of(&[]), Path::new(""));
        let job = RequestJob::new(vec!["/bin/cat".into(), "-".into()], None, Vec::new(), StdinSource::Empty);
        assert_eq!((&*job.name, job.joined), ("/bin/cat", false));
    }
}
