//! The access log: a line for each request, in the common log format.
//!
//! ```text
//! 127.0.0.1 - - [22/Nov/2026:07:25:47 +0000] "GET /form.pl?a=1 HTTP/1.1" 200 2326
//! ```

use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

use jiff::Zoned;

/// An access log.
pub(crate) struct AccessLog {
    path: Option<PathBuf>,
    file: RefCell<Option<File>>,
    /// The second of the last line, and its text.
    time: RefCell<(i64, String)>,
}

/// A line of the access log.
pub(crate) struct AccessLine<'a> {
    /// The address of the client.
    pub(crate) client: &'a str,
    /// The first line of the request.
    pub(crate) request: &'a str,
    pub(crate) status: u16,
    /// The length of the reply's body.
    pub(crate) bytes: u64,
}

impl AccessLog {
    /// Opens a log in a file. Without a path there is no log; `-` is standard output.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let log = Self { path, file: RefCell::default(), time: RefCell::new((i64::MIN, String::new())) };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the file again, after somebody has moved it away.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let open = |path: &PathBuf| match path.as_os_str().as_encoded_bytes() {
            b"-" => io::stdout().lock().flush().and_then(|()| {
                rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)
                    .map(File::from)
                    .map_err(Into::into)
            }),
            _ => OpenOptions::new().create(true).append(true).open(path),
        };
        *self.file.borrow_mut() = self.path.as_ref().map(open).transpose()?;
        Ok(())
    }

    /// Appends a line.
    pub(crate) fn write(&self, line: &AccessLine<'_>) {
        let mut file = self.file.borrow_mut();
        let Some(file) = file.as_mut() else { return };
        let text = format!(
            "{} - - [{}] \"{}\" {} {}\n",
            line.client,
            self.now(),
            escaped(line.request),
            line.status,
            line.bytes
        );
        if let Err(error) = file.write_all(text.as_bytes()) {
            tracing::error!(%error, "the access log cannot be written");
        }
    }

    /// The time in the format of the log.
    fn now(&self) -> String {
        let now = Zoned::now();
        let second = now.timestamp().as_second();
        let mut time = self.time.borrow_mut();
        if time.0 != second {
            *time = (second, now.strftime("%d/%b/%Y:%H:%M:%S %z").to_string());
        }
        time.1.clone()
    }
}

/// A text with quotation marks and control characters escaped, so that a client cannot forge a line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '"' | '\\' => escaped.extend(['\\', one]),
            one if one.is_control() => {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\x{:02x}", u32::from(one));
            }
            one => escaped.push(one),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_common_format_and_stays_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("access.log");
        let log = AccessLog::open(Some(path.clone())).expect("a log");
        log.write(&AccessLine { client: "::1", request: "GET /\"\n HTTP/1.1", status: 200, bytes: 7 });
        std::fs::rename(&path, folder.path().join("old")).expect("moved");
        log.reopen().expect("again");
        log.write(&AccessLine { client: "::1", request: "GET / HTTP/1.1", status: 404, bytes: 0 });
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a log");
        let form = regex_lite::Regex::new(
            r#"^::1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /\\"\\x0a HTTP/1.1" 200 7\n$"#,
        );
        assert!(form.expect("a pattern").is_match(&read("old")), "{}", read("old"));
        assert!(read("access.log").ends_with("\"GET / HTTP/1.1\" 404 0\n"));
    }
}
