//! Many runs of ten programs in one process leave nothing: no descriptor, child, mapping or memory, neither in the
//! caller nor in the keepers.
//!
//! `REGROW_SOAK_RUNS=100000` sets how many runs there are. What there is after a third of them is compared with what
//! there is at the end.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use regrow::{Pool, Stdio};
use regrow_testkit::left::Left;
use regrow_testkit::summary::{self, Percent};

/// Runs of an ordinary test.
const RUNS: usize = 3_000;
/// Bodies of each program: a fixed number, so that what they take is comparable.
const BODIES: usize = 2;
/// How much the memory of the caller may grow by its allocator's whims, and that of all keepers together.
const ALLOWANCE_KIB: u64 = 2048;
/// How long what the pool holds may take to go.
const END_LIMIT: Duration = Duration::from_secs(60);

const PROGRAMS: [&[&str]; 10] = [
    &["true"],
    &["echo", "one", "two  three"],
    &["sh", "-c", "for n in 1 2 3; do echo $n; done; exit 4"],
    &["cat", "/proc/self/cmdline"],
    &["grep", "-c", "root", "/etc/passwd"],
    &["sed", "-n", "1s/:.*//p", "/etc/passwd"],
    &["sort", "-r", "/etc/passwd"],
    &["head", "-c", "100", "/etc/passwd"],
    &["ls", "/"],
    &["git", "--version"],
];

/// What the caller and the keepers of a pool take.
#[derive(Debug)]
struct Taken {
    descriptors: usize,
    children: usize,
    mappings: usize,
    own_kib: u64,
    keepers_kib: u64,
}

impl Taken {
    fn by(pool: &Pool) -> Taken {
        // Every body is put back before it is looked at.
        drop(pool.reports());
        let left = Left::now().expect("/proc is there");
        let maps = fs::read_to_string("/proc/self/maps").expect("/proc is there");
        let own = field_kib(Path::new("/proc/self/status"), "VmRSS:");
        let keeper = |pid: &i32| {
            let rollup = format!("/proc/{pid}/smaps_rollup");
            field_kib(Path::new(&rollup), "Private_Dirty:") + field_kib(Path::new(&rollup), "Swap:")
        };
        Taken {
            descriptors: left.descriptors.len(),
            children: left.children.len(),
            mappings: maps.lines().count(),
            own_kib: own,
            keepers_kib: pool.keepers().iter().map(keeper).sum(),
        }
    }
}

fn field_kib(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn plain(arguments: &[&str]) -> Output {
    std::process::Command::new(arguments[0]).args(&arguments[1..]).output().expect("it is installed")
}

fn runs(pool: &Pool, wanted: &[Output], range: std::ops::Range<usize>) {
    for run in range {
        let (arguments, wanted) = (PROGRAMS[run % PROGRAMS.len()], &wanted[run % PROGRAMS.len()]);
        let mut command = pool.command(arguments[0]);
        command.args(&arguments[1..]).env("RUN", run.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|error| panic!("run {run} of {arguments:?}: {error}"));
        let creation = child.creation().clone();
        let output = child.wait_with_output().expect("its end");
        assert_eq!(&output, wanted, "run {run} of {arguments:?}, {creation}");
    }
}

/// What a body more or less makes.
const DESCRIPTORS_PER_BODY: usize = 3;
/// Shells that the policy may want.
const MOST_SHELLS: usize = 4;

#[test]
fn many_runs_leave_nothing() {
    let all = std::env::var("REGROW_SOAK_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let before = Left::now().expect("/proc is there");
    let pool = Pool::builder().max_bodies_per_program(BODIES).build();
    let wanted: Vec<Output> = PROGRAMS.iter().map(|arguments| plain(arguments)).collect();
    for arguments in PROGRAMS {
        let mut command = pool.command(arguments[0]);
        pool.prepare(command.args(&arguments[1..])).expect("it can be kept");
    }
    runs(&pool, &wanted, 0..all / 3);
    let third = Taken::by(&pool);
    runs(&pool, &wanted, all / 3..all);
    let end = Taken::by(&pool);
    let stats = pool.stats();
    println!("after a third: {third:?}\nat the end: {end:?}\n{stats:?}");
    let recycled = Percent { part: all - usize::try_from(stats.exec).unwrap_or(all), whole: all };
    let line = format!("soak: {all} runs of {} programs, {recycled} not by exec", PROGRAMS.len());
    summary::add(&line).expect("the summary can be written");
    // The policy may have a body more of each program at one time than at another.
    assert!(
        end.descriptors <= third.descriptors + DESCRIPTORS_PER_BODY * PROGRAMS.len(),
        "{third:?} {end:?}"
    );
    assert!(pool.keepers().len() <= PROGRAMS.len() * (BODIES + 1) + MOST_SHELLS, "{:?}", pool.keepers());
    assert!(end.children <= PROGRAMS.len() * (2 * BODIES + 1) + 2 * MOST_SHELLS, "{end:?}");
    assert!(end.mappings <= third.mappings + 2 * PROGRAMS.len(), "{third:?} {end:?}");
    assert!(end.own_kib <= third.own_kib + ALLOWANCE_KIB, "{third:?} {end:?}");
    assert!(end.keepers_kib <= 2 * third.keepers_kib + ALLOWANCE_KIB, "{third:?} {end:?}");
    // How many found all bodies busy depends on what else the machine does.
    assert_eq!(stats.exec, stats.fallbacks.get("all_busy").copied().unwrap_or(0), "{stats:?}");
    assert!(stats.total() > stats.exec, "{stats:?}");
    drop(pool);
    let left = before.beside(END_LIMIT).expect("/proc is there");
    assert_eq!(left, None, "is left of the pool");
}
