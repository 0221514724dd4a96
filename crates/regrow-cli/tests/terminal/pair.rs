//! The same session in two terminals at once: without Regrow, and with it. What is typed is typed in both, and at each step
//! both screens come to be the same.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

use crate::pty::Terminal;
use crate::service::{LIMIT, Service};

/// What is compared of a screen.
pub(crate) type View = fn(&vt100::Screen) -> Vec<u8>;

/// Two terminals with one session.
pub(crate) struct Pair {
    plain: Terminal,
    regrow: Terminal,
    folders: [PathBuf; 2],
    view: View,
    /// How many screens were the same.
    screens: usize,
}

impl Pair {
    /// Starts `plain` and `regrow`, each in a folder of its own that `files` has filled.
    pub(crate) fn start(service: &Service, plain: &[&str], regrow: &[&str], files: impl Fn(&Path)) -> Pair {
        let folder = |name: &str| {
            let folder = service.folder().join(name);
            std::fs::create_dir(&folder).unwrap();
            files(&folder);
            folder
        };
        let folders = [folder("plain"), folder("regrow")];
        let plain = Terminal::start("without Regrow", plain, service, &folders[0]);
        let regrow = Terminal::start("with Regrow", regrow, service, &folders[1]);
        Pair { plain, regrow, folders, view: everything, screens: 0 }
    }

    /// Compares this of the screens from here on, in place of everything.
    pub(crate) fn compare(&mut self, view: View) {
        self.view = view;
    }

    /// Types in both.
    pub(crate) fn send(&self, keys: &str) {
        self.plain.send(keys);
        self.regrow.send(keys);
    }

    /// Gives both windows another size.
    pub(crate) fn resize(&mut self, size: (u16, u16)) {
        self.plain.resize(size);
        self.regrow.resize(size);
    }

    /// Waits until both screens are as they are to be, and the same.
    pub(crate) fn until(&mut self, wanted: &str, condition: impl Fn(&[String]) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !(condition(&self.plain.rows()) && condition(&self.regrow.rows()) && self.are_equal()) {
            Terminal::take_some(&mut [&mut self.plain, &mut self.regrow], deadline, wanted);
        }
        self.screens += 1;
    }

    fn are_equal(&self) -> bool {
        (self.view)(self.plain.screen()) == (self.view)(self.regrow.screen())
    }

    /// Waits for the end of both sessions. The statuses and the last screens are the same.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let statuses = [self.plain.ends(), self.regrow.ends()];
        assert_eq!(statuses[0], statuses[1]);
        assert!(self.are_equal(), "{:?}\n{:?}", self.plain.rows(), self.regrow.rows());
        self.screens += 1;
        statuses[0]
    }

    /// That with Regrow.
    pub(crate) fn regrow(&self) -> &Terminal {
        &self.regrow
    }

    /// The folders of both.
    pub(crate) fn folders(&self) -> &[PathBuf; 2] {
        &self.folders
    }

    /// Tells how much was compared.
    pub(crate) fn tell(&self, session: &str) {
        let line = format!("terminal: {session}: {} screens, the same with and without Regrow", self.screens);
        println!("{line}");
        regrow_testkit::summary::add(&line).unwrap();
    }
}

/// Text, colours, and where the cursor is.
fn everything(screen: &vt100::Screen) -> Vec<u8> {
    screen.state_formatted()
}
