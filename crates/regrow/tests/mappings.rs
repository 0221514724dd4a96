//! What runs do to the mappings of their body, in production settings: the next run has those of the image.
//!
//! One front end does what a file says, after a look at everything that the image has. It tells which mappings there are, so that each run
//! can be compared with the first one.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regrow::{Command, Creation, Fallback, Point, Pool, Strings, Warm};

const PYTHON: &str = "/usr/bin/python3";
/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// Resets of a body whose runs are trusted, of which one looks at each mapping.
const RESETS: usize = 32;

/// Prepares memory of each kind, stops, looks at it, tells which mappings there are, and does what a file says.
const FRONT: &str = "
import ctypes, mmap, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.sbrk.restype = ctypes.c_void_p
SIZE, NONE, READ, BOTH = 64 << 10, 0, mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
CODE = mmap.PROT_READ | mmap.PROT_EXEC

def ask(result):
    assert result not in (-1, (1 << 64) - 1), os.strerror(ctypes.get_errno())
    return result

def new(protection, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, file=-1, size=SIZE):
    return ask(libc.mmap(None, ctypes.c_size_t(size), protection, flags, file, ctypes.c_long(0)))

def protect(address, protection, size=SIZE):
    ask(libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection))

def unmap(address, size=SIZE):
    ask(libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size)))

def fill(address, byte):
    ctypes.memset(address, byte, SIZE)

def is_full(address, byte):
    return ctypes.string_at(address, SIZE) == bytes([byte]) * SIZE

def filled(byte, protection):
    # Apart from its neighbours.
    new(NONE)
    address = new(BOTH)
    fill(address, byte)
    protect(address, protection)
    return address

def deep():
    nested = []
    for _ in range(20000):
        nested = [nested]
    sys.setrecursionlimit(50000)
    try: repr(nested)
    except RecursionError: pass

def mappings():
    rows = []
    for line in open('/proc/self/maps'):
        place, flags, *rest = line.split()
        start, end = place.split('-')
        name = rest[3:]
        if rows and not name and not rows[-1][3] and rows[-1][1:3] == [start, flags]:
            rows[-1][1] = end
        else:
            rows.append([start, end, flags, name])
    return rows

def protection_of(address):
    return next(row[2] for row in mappings() if int(row[0], 16) <= address < int(row[1], 16))

memory, other, constant, code = filled(1, BOTH), filled(2, BOTH), filled(3, READ), filled(4, CODE)
modules = len(sys.modules)
os.kill(os.getpid(), signal.SIGSTOP)
print(mappings())
assert protection_of(constant) in ('r--p', '---p')
assert protection_of(constant) == '---p' or is_full(constant, 3)
assert all(map(is_full, (memory, other, code), (1, 2, 4))) and len(sys.modules) == modules
exec(open('WHAT').read())
sys.stdout.flush()
os._exit(0)
";

/// What runs do.
const CHANGES: [(&str, &str); 17] = [
    ("more memory", "fill(new(BOTH), 9)"),
    ("shared memory", "fill(new(BOTH, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS), 9)"),
    ("more constants", "new(READ)"),
    ("a file", "new(READ, mmap.MAP_PRIVATE, os.open(sys.executable, os.O_RDONLY))"),
    ("room", "new(NONE)"),
    ("memory made constant", "protect(memory, READ)"),
    ("a part of it", "protect(memory + 4096, NONE, 4096)"),
    ("a constant made memory", "protect(constant, BOTH); fill(constant, 9)"),
    ("a constant made code", "protect(constant, CODE)"),
    ("code made a constant", "protect(code, READ)"),
    ("a constant unmapped", "unmap(constant)"),
    ("a part of code unmapped", "unmap(code + 8192, 4096)"),
    ("memory somewhere else", "unmap(memory); fill(new(BOTH), 9)"),
    ("the break", "libc.sbrk(ctypes.c_long(1 << 20))"),
    ("a library", "import _lzma, _bz2"),
    ("a deep stack", "deep()"),
    (
        "all of it",
        "new(READ); unmap(other); protect(code, READ); import _lzma; libc.sbrk(ctypes.c_long(8192))",
    ),
];

/// A pool with one body, whose runs do what they are told.
struct Told {
    directory: tempfile::TempDir,
    pool: Pool,
    command: Command,
}

impl Told {
    fn new(trusts_runs: bool) -> Told {
        let directory = tempfile::tempdir().expect("a directory");
        // Timed for the keeper's number alone.
        let pool = Pool::builder()
            .point(regrow::PointChoice::Only(Point::Warm))
            .trusts_runs(trusts_runs)
            .timed(true)
            .max_bodies_per_program(1)
            .build();
        let what = directory.path().join("what");
        let mut args = Strings::new();
        args.push(&[b"-c"]).expect("no NUL");
        let script = FRONT.replace("WHAT", what.to_str().expect("UTF-8"));
        args.push(&[script.as_bytes()]).expect("no NUL");
        let mut command = pool.command(PYTHON);
        command.args(["-c", "print('plain')"]).warm(Arc::new(Warm { args, ..Warm::default() }));
        assert_eq!(pool.prepare(&command).expect("an image"), Point::Warm);
        Told { directory, pool, command }
    }

    fn what(&self) -> PathBuf {
        self.directory.path().join("what")
    }

    /// Has a run do something; returns how it was made, and which mappings it has found.
    fn start(&mut self, what: &str) -> (Creation, String) {
        fs::write(self.what(), what).expect("a file");
        let child = self.command.stdout(regrow::Stdio::piped()).spawn().expect("it starts");
        let creation = child.creation().clone();
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{what}, {creation}: {output:?}");
        (creation, String::from_utf8(output.stdout).expect("UTF-8"))
    }

    /// The same in a body, which is waited for while it is made anew.
    fn run(&mut self, what: &str) -> String {
        let began = Instant::now();
        loop {
            let (creation, mappings) = self.start(what);
            if creation.fallback() != Some(&Fallback::AllBusy) || began.elapsed() >= LIMIT {
                assert_eq!(creation.point(), Some(Point::Warm), "{what}: {creation}");
                return mappings;
            }
        }
    }

    /// The keeper of the body, when it has put that back.
    fn keeper(&self) -> i32 {
        self.pool.last_times(LIMIT).expect("it was recycled").keeper
    }
}

/// Most bodies that there are one after another, none of which was given up: an image that many runs have used has its memfd made anew, and
/// its bodies then.
const BODIES: usize = 4;

#[test]
fn what_runs_do_to_mappings_is_undone_before_the_next_one() {
    for trusts_runs in [true, false] {
        let mut told = Told::new(trusts_runs);
        let right = told.run("");
        let mut keepers = BTreeSet::from([told.keeper()]);
        // Some of them at another number of resets as well.
        for (name, change) in CHANGES.iter().chain(&CHANGES[..5]) {
            assert_eq!(told.run(change), right, "before: {name}");
            keepers.insert(told.keeper());
            assert_eq!(told.run(""), right, "after: {name}");
            keepers.insert(told.keeper());
            assert!(told.pool.reports().given_up.is_empty(), "{name}: {:?}", told.pool.reports());
        }
        assert!(keepers.len() <= BODIES, "{keepers:?}");
    }
}

/// What cannot be written to and is read no more, or is something else, changes no size. Where runs are trusted one of some resets sees it.
#[test]
fn what_no_size_tells_is_undone_some_runs_later() {
    let changes = ["protect(constant, NONE)", "unmap(constant - SIZE); new(NONE)"];
    for (trusts_runs, most) in [(true, RESETS), (false, 1)] {
        for change in changes {
            let mut told = Told::new(trusts_runs);
            let right = told.run("");
            let mut keepers = BTreeSet::from([told.keeper()]);
            assert_eq!(told.run(change), right, "before: {change}");
            let runs = (1..=most).find(|_| {
                keepers.insert(told.keeper());
                told.run("") == right
            });
            assert!(runs.is_some(), "{change} is not undone after {most} resets");
            assert!(keepers.len() <= BODIES, "{keepers:?}");
            assert!(told.pool.reports().given_up.is_empty(), "{:?}", told.pool.reports());
        }
    }
}

/// A reset that reads what cannot be read ends its keeper, and the body with it.
#[test]
fn what_cannot_be_read_costs_a_body_and_no_more() {
    let mut told = Told::new(true);
    let right = told.run("");
    // Its pages are looked at in each reset from here on.
    assert_eq!(told.run("protect(constant, BOTH); fill(constant, 9)"), right);
    assert_eq!(told.run("protect(constant, NONE)"), right);
    for _ in 0..3 {
        // By exec while there is no body.
        let (creation, mappings) = told.start("");
        assert_eq!(mappings, if creation.point() == Some(Point::Warm) { &right } else { "plain\n" });
    }
    let given_up = told.pool.reports().given_up;
    assert!(given_up.values().sum::<u64>() <= 1, "{given_up:?}");
}
