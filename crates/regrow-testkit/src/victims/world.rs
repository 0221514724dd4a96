//! The world of a run: what the caller gives it, and how the caller tells it so.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::PathBuf;

use regrow::{Command, Resource, Stdio, UNLIMITED};

use super::caller::{self, Caller, CallerWorld};
use super::manifest::Case;

/// The signals that a caller ignores, and those that it blocks. Victims look whether they are; they do not use them.
const IGNORED: [i32; 3] = [libc::SIGUSR2, libc::SIGURG, libc::SIGWINCH];
const BLOCKED: [i32; 2] = [libc::SIGPWR, libc::SIGWINCH];

/// The case that wants the mask that its constructor set, and nothing in it from the caller.
const WANTS_NO_MASK: &str = "constructors-signals";
/// The case whose constructor needs the first free descriptors.
const WANTS_LOW_NUMBERS: &str = "constructor-files";

/// Where a run's standard input comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StandardInput {
    File,
    Null,
    Closed,
}

/// What the request of a run asks for, where it asks for anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) directory: Option<usize>,
    pub(super) umask: Option<u32>,
    pub(super) limits: Vec<(Resource, u64, u64)>,
    pub(super) nice: Option<i32>,
    pub(super) setsid: bool,
    pub(super) group: Option<i32>,
}

/// The world of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) token: String,
    pub(super) extra_args: Vec<String>,
    pub(super) extra_env: Vec<(String, String)>,
    /// Further descriptors: number and offset.
    pub(super) files: Vec<(i32, u64)>,
    pub(super) input: StandardInput,
    pub(super) output_by_pipe: bool,
    /// The caller's directory.
    pub(super) directory: usize,
    /// The change of the caller before the run, if there is one.
    pub(super) caller: Option<CallerWorld>,
    pub(super) asked: Asked,
}

/// The places of a case.
#[derive(Debug)]
pub(super) struct Places {
    /// Working directories, empty at the start.
    pub(super) directories: Vec<PathBuf>,
    /// A file that the further descriptors are of.
    pub(super) digits: PathBuf,
    /// The case's standard input.
    pub(super) stdin: PathBuf,
}

/// Numbers that depend on nothing but where they start (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn of(case: &str, run: usize) -> Numbers {
        // FNV-1a of the name.
        let hash = case.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Numbers(hash ^ (run as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn of_list<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }
}

impl World {
    /// The world of run `run`. Two in five runs inherit everything, as most runs of real callers do; before one in
    /// five the caller changes; the rest ask for what they get.
    pub(super) fn of(case: &Case, run: usize, caller: &Caller, directories: usize) -> World {
        let mut numbers = Numbers::of(&case.name, run);
        let style = numbers.below(5);
        let asked = if style >= 3 { ask(&mut numbers, caller, directories) } else { Asked::default() };
        let letters = |numbers: &mut Numbers, most: u64| {
            let length = numbers.below(most);
            (0..length).map(|_| char::from(b"abcdefgh /=-"[numbers.index(12)])).collect::<String>()
        };
        let most = if numbers.one_in(10) { 3000 } else { 40 };
        let extra_args = (0..numbers.below(6)).map(|_| letters(&mut numbers, most)).collect();
        let extra_env =
            (0..numbers.below(8)).map(|n| (format!("FILL_{n}"), letters(&mut numbers, most))).collect();
        let given = case.stdin.is_some();
        let input = match numbers.below(8) {
            0 if !given && case.name != WANTS_LOW_NUMBERS => StandardInput::Closed,
            1..5 if !given => StandardInput::Null,
            _ => StandardInput::File,
        };
        let mut files: Vec<(i32, u64)> = Vec::new();
        for _ in 0..numbers.of_list(&[0, 0, 1, 1, 2, 5]) {
            let number = numbers.of_list(&[3, 4, 5, 7, 11, 30, 77, 200]);
            if case.name == WANTS_LOW_NUMBERS && number < 7 {
                continue;
            }
            files.retain(|file| file.0 != number);
            files.push((number, numbers.below(11)));
        }
        World {
            token: format!("token-{:08x}", numbers.next() >> 32),
            extra_args,
            extra_env,
            files,
            input,
            output_by_pipe: numbers.one_in(4),
            directory: numbers.index(directories),
            caller: (style == 2 || style == 4).then(|| change(&mut numbers, caller, case)),
            asked,
        }
    }

    /// Sets up the command for it. Returns what the victim is told, for the reader of a failure.
    pub(super) fn command(
        &self,
        command: &mut Command,
        case: &Case,
        caller: &Caller,
        places: &Places,
    ) -> io::Result<BTreeMap<String, String>> {
        command.args(&case.args).args(&self.extra_args).env_clear();
        command.stdin(match self.input {
            StandardInput::File => Stdio::from(File::open(&places.stdin)?),
            StandardInput::Null => Stdio::null(),
            StandardInput::Closed => Stdio::closed(),
        });
        for &(number, offset) in &self.files {
            let mut file = File::open(&places.digits)?;
            file.seek(SeekFrom::Start(offset))?;
            command.fd(file, number);
        }
        self.ask(command, places);
        let told = self.expectations(case, caller, places);
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("VICTIM_TOKEN", &self.token)];
        let given = case.env.iter().filter_map(|entry| entry.split_once('='));
        let mut env: BTreeMap<&str, &str> = own.into_iter().chain(given).collect();
        env.extend(self.extra_env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut told: BTreeMap<String, String> =
            told.into_iter().map(|(name, value)| (format!("EXPECT_{name}"), value)).collect();
        told.retain(|name, _| !env.contains_key(name.as_str()));
        told.insert("EXPECT_ENVC".to_owned(), (env.len() + told.len() + 1).to_string());
        command.envs(env).envs(&told);
        Ok(told)
    }

    fn ask(&self, command: &mut Command, places: &Places) {
        let asked = &self.asked;
        if let Some(directory) = asked.directory {
            command.current_dir(&places.directories[directory]);
        }
        if let Some(mask) = asked.umask {
            command.umask(mask);
        }
        for &(resource, soft, hard) in &asked.limits {
            command.limit(resource, soft, hard);
        }
        if let Some(niceness) = asked.nice {
            command.nice(niceness);
        }
        if let Some(group) = asked.group {
            command.process_group(group);
        }
        command.setsid(asked.setsid);
    }

    fn expectations(&self, case: &Case, caller: &Caller, places: &Places) -> BTreeMap<String, String> {
        let mut told = caller.expectations();
        let mut tell = |name: &str, value: String| drop(told.insert(name.to_owned(), value));
        let path = case.path.to_string_lossy().into_owned();
        let comm =
            case.path.file_name().map(|name| name.to_string_lossy().chars().take(15).collect::<String>());
        tell("COMM", comm.unwrap_or_default());
        tell("EXE", path.clone());
        tell("EXECFN", path.clone());
        let arguments = [&path].into_iter().chain(&case.args).chain(&self.extra_args);
        for (number, argument) in arguments.clone().enumerate() {
            tell(&format!("ARGV_{number}"), argument.clone());
        }
        tell("ARGC", arguments.count().to_string());
        let directory = self.asked.directory.unwrap_or(self.directory);
        tell("CWD", places.directories[directory].to_string_lossy().into_owned());
        let mut numbers = vec![1, 2];
        numbers.extend((self.input != StandardInput::Closed).then_some(0));
        for &(number, offset) in &self.files {
            numbers.push(number);
            tell(&format!("OFFSET_{number}"), offset.to_string());
            tell(&format!("FILE_{number}"), places.digits.to_string_lossy().into_owned());
        }
        numbers.sort_unstable();
        tell("FDS", numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        let asked = &self.asked;
        if let Some(mask) = asked.umask {
            tell("UMASK", format!("{mask:04o}"));
        }
        for &(resource, soft, hard) in &asked.limits {
            tell(caller::limit_name(resource), caller::limit_text((soft, hard)));
        }
        if let Some(niceness) = asked.nice {
            tell("NICE", niceness.to_string());
        }
        match asked.group {
            // Its own number, which nobody knows before it runs: looked at from outside.
            Some(0) => drop(told.remove("PGID")),
            Some(group) => drop(told.insert("PGID".to_owned(), group.to_string())),
            None => {}
        }
        if asked.setsid {
            told.remove("SID");
            told.remove("PGID");
        }
        told
    }
}

/// A limit and values for it that no victim comes near.
fn limit(numbers: &mut Numbers) -> (Resource, u64, u64) {
    let step = numbers.below(1000);
    let (resource, soft) = match numbers.below(9) {
        0 => (Resource::Nofile, 1100 + step),
        1 => (Resource::Locks, 5000 + step),
        2 => (Resource::Msgqueue, 700_000 + step),
        3 => (Resource::Sigpending, 3000 + step),
        4 => (Resource::Fsize, (1 << 40) + step),
        5 => (Resource::Cpu, 3000 + step),
        6 => (Resource::Rss, (1 << 40) + step),
        7 => (Resource::Rttime, 1_000_000 + step),
        _ => (Resource::As, (1 << 46) + step * 4096),
    };
    let (_, hard) = caller::limit(resource);
    let lowered = if numbers.one_in(3) { soft.saturating_add(100_000) } else { UNLIMITED };
    (resource, soft.min(hard), lowered.min(hard))
}

fn ask(numbers: &mut Numbers, caller: &Caller, directories: usize) -> Asked {
    let mut limits: Vec<(Resource, u64, u64)> = Vec::new();
    for _ in 0..numbers.below(4) {
        let drawn = limit(numbers);
        limits.retain(|known| known.0 != drawn.0);
        limits.push(drawn);
    }
    let lowest = caller.nice_at_start - if caller.is_root { 4 } else { 0 };
    let drawn = lowest + i32::try_from(numbers.below(8)).unwrap_or(0);
    let setsid = numbers.one_in(3);
    let group = [0, caller.first_group()][numbers.index(2)];
    Asked {
        directory: numbers.one_in(2).then(|| numbers.index(directories)),
        umask: numbers.one_in(2).then(|| numbers.of_list(&[0, 0o002, 0o027, 0o077])),
        limits,
        nice: (numbers.one_in(2) && drawn <= 19).then_some(drawn),
        setsid,
        group: (!setsid && numbers.one_in(2)).then_some(group),
    }
}

fn change(numbers: &mut Numbers, caller: &Caller, case: &Case) -> CallerWorld {
    let some = |numbers: &mut Numbers, list: &[i32]| {
        list.iter().copied().filter(|_| numbers.one_in(2)).collect::<Vec<_>>()
    };
    let blockable: &[i32] = if case.name == WANTS_NO_MASK { &[] } else { &BLOCKED };
    let (_, hard) = caller::limit(Resource::Nofile);
    CallerWorld {
        umask: numbers.of_list(&[0o022, 0o002, 0o026, 0o077]),
        nofile_soft: (1024 + numbers.below(1000)).min(hard),
        ignored: some(numbers, &IGNORED),
        blocked: some(numbers, blockable),
        own_group: numbers.one_in(2),
        nice: caller.nice_at_start + i32::try_from(numbers.below(4)).unwrap_or(0),
        one_cpu: numbers.one_in(3),
    }
}
