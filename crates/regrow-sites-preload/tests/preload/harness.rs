//! A folder with the library and compiled programs, and what a collection below a command has told.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use object::{Object, ObjectSymbol};
use regrow_collect::below::{Below, Summary};
use regrow_sites::{Event, Frame, ImageId, ProcessKey, Site, Usage};

/// See the module. It is removed at the end.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// What a collection has told.
pub(crate) struct Told {
    pub(crate) events: Vec<Event>,
    pub(crate) summary: Summary,
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
    names: HashMap<ImageId, String>,
}

/// A process, as the events tell of it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) key: ProcessKey,
    pub(crate) parent: ProcessKey,
    pub(crate) site: Site,
    /// The last part of the path of each program that it has executed.
    pub(crate) executed: Vec<String>,
    pub(crate) usage: Option<Usage>,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("libregrow_sites.so"), regrow_sites_preload::LIBRARY)
            .expect("it is written");
        Place { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.path("libregrow_sites.so")
    }

    /// Compiles a program of these tests.
    pub(crate) fn compile(&self, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload").join(source);
        let to = self.path(&format!("{source}.{}", flags.join("")));
        let usual = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1"];
        let done = Command::new(compiler)
            .args(usual)
            .arg(from)
            .args(flags)
            .args(["-o".as_ref(), to.as_os_str()])
            .output()
            .expect("the compiler starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        to
    }

    /// Runs a command below which is collected.
    pub(crate) fn watch(&self, command: &mut Command) -> Told {
        let below = Below::new(&self.library(), None).expect("a channel");
        let output = self.path("output");
        let file = fs::File::create(&output).expect("it is made");
        command.current_dir(self.folder.path()).stdout(file);
        let mut events = Vec::new();
        let (status, summary) =
            below.run(command, None, |_, some| events.extend_from_slice(some)).expect("it runs");
        let output = String::from_utf8_lossy(&fs::read(output).expect("it is there")).into_owned();
        let name = |event: &Event| match event {
            Event::Named { image, path } => Some((*image, path.clone())),
            _ => None,
        };
        let names = events.iter().filter_map(name).collect();
        Told { events, summary, status, output, names }
    }

    /// The same of a shell's script.
    pub(crate) fn watch_shell(&self, shell: &str, script: &str) -> Told {
        fs::write(self.path("script.sh"), script).expect("it is written");
        self.watch(Command::new(shell).arg("script.sh"))
    }
}

impl Told {
    /// The path of an image.
    pub(crate) fn path(&self, image: ImageId) -> &str {
        self.names.get(&image).map_or("", String::as_str)
    }

    /// The last part of the path of an image.
    pub(crate) fn name(&self, image: ImageId) -> String {
        self.path(image).rsplit('/').next().unwrap_or("").to_owned()
    }

    /// All processes but the command's own, in the order of their creation.
    pub(crate) fn processes(&self) -> Vec<Seen> {
        let mut all: Vec<Seen> = Vec::new();
        for event in &self.events {
            if let Event::Created { process, parent, site, .. } = *event {
                let again = all.iter().any(|seen| seen.key == process);
                assert!(!again, "created twice: {process:?}");
                all.push(Seen { key: process, parent, site, executed: Vec::new(), usage: None });
            }
        }
        for event in &self.events {
            match *event {
                Event::Executed { process, image, .. } => {
                    of(&mut all, process).executed.push(self.name(image));
                }
                Event::Ended { process, usage, .. } => {
                    assert!(of(&mut all, process).usage.replace(usage).is_none(), "ended twice: {event:?}");
                }
                _ => {}
            }
        }
        let own = std::process::id();
        all.retain(|seen| seen.parent.pid != own);
        all.sort_by_key(|seen| seen.key.created_us);
        all
    }

    /// Checks that the command ended well, and that nothing was lost.
    pub(crate) fn whole(self) -> Told {
        assert!(self.status.success(), "{:?}: {}", self.status, self.output);
        assert_eq!((self.summary.dropped, self.summary.lost), (0, 0), "{:?}", self.summary);
        self
    }
}

fn of(all: &mut [Seen], key: ProcessKey) -> &mut Seen {
    all.iter_mut().find(|seen| seen.key == key).unwrap_or_else(|| panic!("never created: {key:?}"))
}

/// The functions of a file, by which its addresses are told.
pub(crate) struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    pub(crate) fn read(path: &Path) -> Functions {
        let bytes = fs::read(path).expect("it is there");
        let file = object::File::parse(&*bytes).expect("an executable");
        let all = file.symbols().chain(file.dynamic_symbols());
        let name = |symbol: object::Symbol<'_, '_>| {
            (symbol.address(), symbol.size(), symbol.name().unwrap_or("").to_owned())
        };
        Functions(all.filter(ObjectSymbol::is_definition).map(name).collect())
    }

    /// The function that a return address is in: by the byte before it.
    pub(crate) fn of(&self, frame: Option<Frame>) -> &str {
        let Some(call) = frame.map(|frame| frame.offset - 1) else { return "" };
        let has = |&&(from, bytes, _): &&(u64, u64, String)| (from..from + bytes).contains(&call);
        self.0.iter().find(has).map_or("?", |(.., name)| name)
    }
}

/// What a command does without the library.
pub(crate) fn plain(command: &mut Command) -> Output {
    command.output().expect("it starts")
}

/// Whether a program is installed.
pub(crate) fn is_there(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(OsStr::new(program)).is_file())
}
