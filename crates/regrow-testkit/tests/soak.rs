//! Many runs of twenty programs in one process, in production settings: each prints and ends as it does by exec, the spot checks
//! find no difference, and nothing is left, no descriptor, child, mapping or memory, neither in the caller nor in the keepers.
//! Keepers and runs are killed meanwhile, memory is short, and some runs leave processes behind.
//!
//! `REGROW_SOAK_RUNS=1000000` sets how many runs there are. What there is after a third of them is compared with what
//! there is at the end.

#[path = "soak/trouble.rs"]
mod trouble;

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use regrow::{Pool, Reports, Stats, Stdio};
use regrow_testkit::left::Left;
use regrow_testkit::summary::{self, Percent};
use trouble::Trouble;

/// Runs of an ordinary test.
const RUNS: usize = 5_000;
/// One body in so many runs is compared with its image.
const SPOT_CHECKS: u32 = 50;
/// At least so many of a hundred checks that are due are made: a body that is busy when its turn comes is not checked.
const LEAST_CHECKED_PERCENT: u64 = 20;
/// Of a hundred runs at most so many are by exec: after a kill, or where all bodies are busy.
const MOST_EXEC_PERCENT: usize = 20;
/// Why a run may be by exec: what is killed is made anew.
const REASONS: [&str; 6] =
    ["all_busy", "body_broken", "first_run", "image_in_progress", "no_memory", "not_kept"];
/// Why a body may be given up.
const GIVEN_UP: [&str; 4] = ["keeper_died", "left_processes", "died", "clone"];
/// Bodies of each program: a fixed number, so that what they take is comparable.
const BODIES: usize = 2;
/// How much the memory of the caller may grow by its allocator's whims, and that of all keepers together.
const ALLOWANCE_KIB: u64 = 2048;
/// How long what the pool holds may take to go.
const END_LIMIT: Duration = Duration::from_secs(60);

const PROGRAMS: [&[&str]; 20] = [
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
    // It leaves a process behind, which ends soon.
    &["sh", "-c", "sleep 0.01 >/dev/null 2>&1 </dev/null & echo left"],
    &["sh", "-c", "printf '%s\\n' one two | sort -r | head -n 1"],
    &["sh", "-c", "kill -TERM $$"],
    &["env", "-i", "A=1", "env"],
    &["wc", "-l", "/etc/passwd"],
    &["tr", "a-z", "A-Z"],
    &["awk", "BEGIN { for (n = 0; n < 2000; n++) sum += n; print sum }"],
    &["perl", "-e", "my @all = map { $_ * 2 } 1 .. 5000; print scalar(@all), qq{\n}"],
    &["expr", "6", "*", "7"],
    &["false"],
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
        let own = fs::read_to_string("/proc/self/status").expect("/proc is there");
        // One that was killed takes nothing.
        let keeper = |pid: &i32| {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            field_kib(&rollup, "Private_Dirty:") + field_kib(&rollup, "Swap:")
        };
        Taken {
            descriptors: left.descriptors.len(),
            children: left.children.len(),
            mappings: maps.lines().count(),
            own_kib: field_kib(&own, "VmRSS:"),
            keepers_kib: pool.keepers().iter().map(keeper).sum(),
        }
    }
}

fn field_kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn plain(arguments: &[&str]) -> Output {
    std::process::Command::new(arguments[0]).args(&arguments[1..]).output().expect("it is installed")
}

fn runs(pool: &Pool, wanted: &[Output], trouble: &mut Trouble, range: std::ops::Range<usize>) {
    for run in range {
        let (arguments, wanted) = (PROGRAMS[run % PROGRAMS.len()], &wanted[run % PROGRAMS.len()]);
        let mut command = pool.command(arguments[0]);
        command.args(&arguments[1..]).env("RUN", run.to_string());
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let child = child.unwrap_or_else(|error| panic!("run {run} of {arguments:?}: {error}"));
        let creation = child.creation().clone();
        let output = child.wait_with_output().expect("its end");
        assert_eq!(&output, wanted, "run {run} of {arguments:?}, {creation}");
        trouble.after(pool, run);
    }
}

/// What a body more or less makes.
const DESCRIPTORS_PER_BODY: usize = 3;
/// Shells that the policy may want.
const MOST_SHELLS: usize = 4;

/// The pool did what it is there for, and nothing was found.
fn judge(all: usize, stats: &Stats, reports: &Reports, trouble: &Trouble) {
    assert_eq!((reports.spot_differences, reports.differences.as_slice()), (0, &[][..]), "{reports:?}");
    let due = all as u64 / u64::from(SPOT_CHECKS);
    assert!(reports.spot_checked * 100 >= due * LEAST_CHECKED_PERCENT, "{reports:?} of {due}");
    assert!(reports.given_up.keys().all(|reason| GIVEN_UP.contains(reason)), "{reports:?}");
    assert!(stats.fallbacks.keys().all(|reason| REASONS.contains(reason)), "{stats:?}");
    let exec = usize::try_from(stats.exec).unwrap_or(usize::MAX);
    assert!(exec * 100 <= all * MOST_EXEC_PERCENT, "{stats:?}");
    assert!(trouble.is_enough(all), "{trouble:?}");
}

/// Whoever is killed, the seed too: what cannot be read any more is no difference.
#[test]
fn a_body_is_not_said_to_differ_when_a_keeper_or_the_seed_is_killed() {
    for round in 0..12 {
        let pool = Pool::builder().max_bodies_per_program(BODIES).build();
        let command = || {
            let mut command = pool.command("sh");
            command.args(["-c", ":"]);
            command
        };
        pool.prepare(&command()).expect("it can be kept");
        let children: Vec<_> = (0..BODIES).map(|_| command().spawn().expect("it starts")).collect();
        children.into_iter().for_each(|mut child| assert!(child.wait().expect("its end").success()));
        let began = Instant::now();
        while pool.reports().spot_checked < BODIES as u64 {
            assert!(began.elapsed() < END_LIMIT, "{:?}", pool.reports());
            pool.spot_check();
        }
        let keepers = pool.keepers();
        trouble::kill(keepers[round % keepers.len()]);
        (0..20).for_each(|_| pool.spot_check());
        std::thread::sleep(Duration::from_millis(20));
        pool.spot_check();
        let reports = pool.reports();
        assert_eq!(reports.differences, Vec::<String>::new(), "round {round} of {keepers:?}: {reports:?}");
    }
}

#[test]
fn many_runs_leave_nothing() {
    let all = std::env::var("REGROW_SOAK_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let before = Left::now().expect("/proc is there");
    let pool = Pool::builder().max_bodies_per_program(BODIES).spot_checks(SPOT_CHECKS).build();
    let mut trouble = Trouble::default();
    let wanted: Vec<Output> = PROGRAMS.iter().map(|arguments| plain(arguments)).collect();
    for arguments in PROGRAMS {
        let mut command = pool.command(arguments[0]);
        pool.prepare(command.args(&arguments[1..])).expect("it can be kept");
    }
    runs(&pool, &wanted, &mut trouble, 0..all / 3);
    let third = Taken::by(&pool);
    runs(&pool, &wanted, &mut trouble, all / 3..all);
    let end = Taken::by(&pool);
    let (stats, reports) = (pool.stats(), pool.reports());
    println!("after a third: {third:?}\nat the end: {end:?}\n{stats:?}\n{reports:?}\n{trouble:?}");
    let recycled =
        Percent { part: all.saturating_sub(usize::try_from(stats.exec).unwrap_or(all)), whole: all };
    let line = format!(
        "soak: {all} runs of {} programs, {recycled} not by exec; {} bodies checked, {} differences; {} keepers and {} runs killed",
        PROGRAMS.len(),
        reports.spot_checked,
        reports.differences.len(),
        trouble.keepers_killed,
        trouble.runs_killed
    );
    summary::add(&line).expect("the summary can be written");
    judge(all, &stats, &reports, &trouble);
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
    drop(pool);
    let left = before.beside(END_LIMIT).expect("/proc is there");
    assert_eq!(left, None, "is left of the pool");
}
