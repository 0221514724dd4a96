//! A terminal: the master's side of a pty, with the screen that what comes from it has made.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::service::{LIMIT, Service, eventually};

/// Rows and columns that a terminal has at first.
pub(crate) const SIZE: (u16, u16) = (24, 80);

/// A terminal, and the program whose controlling terminal it is.
pub(crate) struct Terminal {
    name: &'static str,
    /// `None` when it has hung up.
    master: Option<OwnedFd>,
    program: Child,
    screen: vt100::Parser,
    /// Nobody has the other side open.
    is_closed: bool,
}

impl Terminal {
    /// Starts a program in a folder, in a session whose controlling terminal this is.
    pub(crate) fn start(name: &'static str, program: &[&str], service: &Service, folder: &Path) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        set_size(master.as_fd(), SIZE);
        let end = || Stdio::from(ioctl_tiocgptpeer(&master, flags).unwrap());
        // A child of this process leads no group, so that `setsid` has no child of its own.
        let mut command = Command::new("env");
        // Whoever runs the tests in the background may have them ignore what a terminal sends.
        command
            .args(["--default-signal=HUP,INT,QUIT", "setsid", "--ctty"])
            .args(program)
            .stdin(end())
            .stdout(end())
            .stderr(end());
        set_up(&mut command, service, folder);
        let program = command.spawn().unwrap();
        let screen = vt100::Parser::new(SIZE.0, SIZE.1, 0);
        Terminal { name, master: Some(master), program, screen, is_closed: false }
    }

    /// The number of the program that was started.
    pub(crate) fn pid(&self) -> i32 {
        self.program.id().cast_signed()
    }

    /// Types.
    pub(crate) fn send(&self, keys: &str) {
        let mut rest = keys.as_bytes();
        while !rest.is_empty() {
            let sent = rustix::io::write(self.descriptor(), rest).unwrap();
            rest = &rest[sent..];
        }
    }

    /// Gives the window another size. The kernel tells the group in the foreground.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        set_size(self.descriptor(), size);
        self.screen.screen_mut().set_size(size.0, size.1);
    }

    /// What is on the screen, and where the cursor is.
    pub(crate) fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Its rows, without the blanks at their ends.
    pub(crate) fn rows(&self) -> Vec<String> {
        rows(self.screen())
    }

    /// Waits until something comes, and takes it in.
    pub(crate) fn take_some(terminals: &mut [&mut Terminal], deadline: Instant, wanted: &str) {
        let mut ready: Vec<PollFd<'_>> = Vec::new();
        for terminal in terminals.iter() {
            // A negative number is left out by the kernel, and so is one that is closed here.
            let flags = if terminal.is_closed { PollFlags::empty() } else { PollFlags::IN };
            ready.push(PollFd::from_borrowed_fd(terminal.descriptor(), flags));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let count = match terminals.iter().all(|terminal| terminal.is_closed) {
            true => 0,
            false => poll(&mut ready, Some(&Timespec::try_from(left).unwrap())).unwrap(),
        };
        let all: Vec<bool> = ready.iter().map(|one| one.revents().contains(PollFlags::IN)).collect();
        let gone: Vec<bool> = ready.iter().map(|one| one.revents().contains(PollFlags::HUP)).collect();
        assert!(count > 0, "{wanted}: {}", shown(terminals));
        for ((terminal, has_some), is_gone) in terminals.iter_mut().zip(all).zip(gone) {
            if has_some || is_gone {
                terminal.take();
            }
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.master.as_ref().unwrap().as_fd()
    }

    /// Takes in what has come.
    fn take(&mut self) {
        let mut buffer = [0; 4096];
        match rustix::io::read(self.descriptor(), &mut buffer) {
            // What a terminal says when the last process has closed it.
            Err(Errno::IO) | Ok(0) => self.is_closed = true,
            Ok(count) => self.screen.process(&buffer[..count]),
            Err(error) => panic!("{}: {error}", self.name),
        }
    }

    /// Waits until the screen is as it is to be.
    pub(crate) fn until(&mut self, wanted: &str, condition: impl Fn(&[String]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !condition(&self.rows()) {
            Terminal::take_some(&mut [self], deadline, wanted);
        }
    }

    /// The terminal goes away, as when its window is closed.
    pub(crate) fn hang_up(mut self) {
        self.master = None;
        eventually("the end of the session", || self.program.try_wait().unwrap().is_some());
    }

    /// Waits until nobody has the terminal open, and for the end of the program.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        while !self.is_closed {
            Terminal::take_some(&mut [self], deadline, "the end");
        }
        self.program.wait().unwrap()
    }

    /// The file that the program's process has executed.
    pub(crate) fn executable(&self) -> String {
        let link = fs::read_link(format!("/proc/{}/exe", self.pid())).unwrap();
        Path::file_name(&link).unwrap().to_string_lossy().into_owned()
    }
}

/// What every session has of its environment, with the command under test before all others in `PATH`.
fn set_up(command: &mut Command, service: &Service, folder: &Path) {
    let own = Path::new(env!("CARGO_BIN_EXE_regrow")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path))).unwrap();
    command.env_clear().env("PATH", path).env("LC_ALL", "C").env("TERM", "xterm-256color");
    command.current_dir(folder).env("HOME", folder).env("LESSHISTFILE", "-");
    command.env("XDG_RUNTIME_DIR", service.folder());
}

/// Runs a program with the environment of a terminal until it is recycled.
pub(crate) fn warm(service: &Service, program: &[&str]) {
    service.warm_in(program, |command| set_up(command, service, service.folder()));
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", shown(&mut [self]));
        }
        // The kernel hangs up on the rest of the session.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn set_size(master: BorrowedFd<'_>, (rows, columns): (u16, u16)) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
}

/// The rows of a screen, without the blanks at their ends.
pub(crate) fn rows(screen: &vt100::Screen) -> Vec<String> {
    screen.rows(0, screen.size().1).map(|row| row.trim_end().to_owned()).collect()
}

/// What terminals show, for a message.
fn shown(terminals: &mut [&mut Terminal]) -> String {
    let one = |terminal: &mut &mut Terminal| {
        let rows: Vec<String> = terminal.rows().into_iter().filter(|row| !row.is_empty()).collect();
        let (row, column) = terminal.screen().cursor_position();
        let end = if terminal.is_closed { ", closed" } else { "" };
        format!("{}, cursor {row}, {column}{end}:\n{}\n", terminal.name, rows.join("\n"))
    };
    terminals.iter_mut().map(one).collect()
}
