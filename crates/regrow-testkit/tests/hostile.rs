//! Whatever an unprivileged run does, the next one is as after exec, or its body is gone, for the reason that the manifest
//! names: every attack of `tests/hostile/`, with and without a process that outlives it, out of a pool in production settings.
//!
//! `cargo test --test hostile -- TEXT` plays the attacks whose names contain the text. What the manifest marks as open is
//! counted and not played; `REGROW_HOSTILE_OPEN=1` plays it too. Where the same runs as root too, each attack is played in its first way
//! alone. The attacks must be built (`make victims`).
//!
//! The test is a program without the usual frame of tests, because each attack has a process of its own: the same program.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use regrow::{Policy, Pool};
use regrow_pool::policy::Frequency;
use regrow_testkit::attacks::{
    Aftermath, Attack, AttackError, Attacks, Way, built_attacks_dir, play, project_attacks_dir,
};
use regrow_testkit::summary::{self, Extent};

/// The variable that names the attack and the way of a process.
const JOB: &str = "REGROW_HOSTILE_JOB";
/// The variable that has open rows played too.
const OPEN: &str = "REGROW_HOSTILE_OPEN";
/// How many are played at a time: the test is meant for two processors.
const AT_A_TIME: usize = 2;
/// How often an attack is played whose image was made anew meanwhile.
const MOST_PLAYS: usize = 3;
/// How long an attack may take before its process is killed.
const JOB_LIMIT: Duration = Duration::from_secs(180);

/// The outcomes of all attacks.
#[derive(Default)]
struct Tally {
    fresh: usize,
    given_up: usize,
    refused: usize,
    lacking: usize,
    recycled: usize,
    forked: usize,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, place: &str, outcome: &Aftermath) {
        self.recycled += outcome.recycled;
        self.forked += outcome.forked;
        self.failures.extend(outcome.failures.iter().map(|what| format!("{place}: {what}")));
        match outcome.came.split(':').next() {
            _ if outcome.lacking.is_some() => self.lacking += 1,
            Some("fresh") => self.fresh += 1,
            Some("exec") => self.refused += 1,
            _ => self.given_up += 1,
        }
    }
}

fn play_one(attack: &Attack, way: Way) -> Aftermath {
    // One body, which no policy exchanges for another: what comes after the attack is in its body, or the body is given up.
    let policy = Policy::Recycle(Frequency::ANY);
    let mut pool = Pool::builder().max_bodies_per_program(1).policy(policy).build();
    let failed =
        |error: std::io::Error| Aftermath { failures: vec![error.to_string()], ..Aftermath::default() };
    play(&mut pool, attack, way).unwrap_or_else(failed)
}

/// Plays an attack, again where its image was made anew meanwhile.
fn play_until_one_image(attack: &Attack, way: Way) -> Aftermath {
    let mut outcome = play_one(attack, way);
    for _ in 1..MOST_PLAYS {
        if outcome.failures.is_empty() || !outcome.has_another_image() {
            break;
        }
        outcome = play_one(attack, way);
    }
    outcome
}

/// Plays an attack in a process of its own.
fn play_apart(attack: &Attack, way: Way) -> Result<Aftermath, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.env(JOB, format!("{} {way}", attack.name)).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let started = Instant::now();
    // What it prints is one short line.
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            break status;
        }
        if started.elapsed() > JOB_LIMIT {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut line = String::new();
    let output = child.stdout.take().map(|mut output| std::io::Read::read_to_string(&mut output, &mut line));
    output.transpose().map_err(|error| error.to_string())?;
    serde_json::from_str(&line).map_err(|error| format!("its process ended with {status}: {error}"))
}

fn jobs(attacks: &Attacks) -> (Vec<(&Attack, Way)>, usize) {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen = attacks.all.iter().filter(|attack| attack.name.contains(&wanted));
    let ways = if summary::extent() == Extent::Again { 1 } else { usize::MAX };
    let all = chosen.flat_map(|attack| attack.ways.iter().take(ways).map(move |&way| (attack, way)));
    let plays_open = std::env::var_os(OPEN).is_some();
    let (closed, open): (Vec<_>, Vec<_>) = all.partition(|(attack, way)| plays_open || !attack.is_open(*way));
    (closed, open.len())
}

fn play_all(jobs: &[(&Attack, Way)]) -> Tally {
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some((attack, way)) = jobs.get(next.fetch_add(1, Relaxed)) {
                    let place = format!("{} {way}", attack.name);
                    let outcome = play_apart(attack, *way)
                        .unwrap_or_else(|what| Aftermath { failures: vec![what], ..Aftermath::default() });
                    let came = outcome
                        .lacking
                        .as_ref()
                        .map_or(outcome.came.clone(), |what| format!("lacking {what}"));
                    println!(
                        "{place}: {came} ({} recycled, {} forked, by exec {:?}){}",
                        outcome.recycled,
                        outcome.forked,
                        outcome.exec,
                        outcome
                            .failures
                            .iter()
                            .map(|what| format!("\n    FAILED {what}"))
                            .collect::<String>()
                    );
                    tally.lock().expect("nobody panics with it").add(&place, &outcome);
                }
            });
        }
    });
    tally.into_inner().expect("nobody panics with it")
}

fn run() -> Result<ExitCode, AttackError> {
    let attacks = Attacks::load(&project_attacks_dir(), &built_attacks_dir())?;
    if let Ok(job) = std::env::var(JOB) {
        let (name, way) = job.split_once(' ').unwrap_or_default();
        let attack = attacks.find(name);
        let way = attack.and_then(|attack| attack.ways.iter().copied().find(|known| known.name() == way));
        let (Some(attack), Some(way)) = (attack, way) else { return Ok(ExitCode::FAILURE) };
        let line = serde_json::to_string(&play_until_one_image(attack, way)).unwrap_or_default();
        println!("{line}");
        return Ok(ExitCode::SUCCESS);
    }
    let (jobs, open) = jobs(&attacks);
    let tally = play_all(&jobs);
    let line = format!(
        "hostile: {} attacks x ways: {} left the next runs as after exec, {} cost their body, {} were refused ahead, {} lacked \
         something; {open} open; {} probes recycled, {} in a forked body; {} failures",
        jobs.len(),
        tally.fresh,
        tally.given_up,
        tally.refused,
        tally.lacking,
        tally.recycled,
        tally.forked,
        tally.failures.len()
    );
    println!("{line}");
    summary::add(&line).unwrap_or_else(|error| println!("the summary cannot be written: {error}"));
    Ok(if tally.failures.is_empty() && !jobs.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        println!("FAILED: {error}");
        ExitCode::FAILURE
    })
}
