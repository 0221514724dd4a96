//! `regrow replay`: runs a recorded sequence of creations through policies, with a number of processes kept alive, and says
//! what each spends and holds.
//!
//! ```text
//!   TRACE ──> for each policy, each number of processes ──> simulator ──> table, --json, --plot
//!                     costs: --costs, else measured here ─────┘
//! ```

mod costs;
mod letters;
mod plot;
mod real;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use regrow::Pool;
use regrow_pool::policy::{Choice, UnknownPolicy};
use regrow_pool::sim::{self, Costs, Existing, Point, Report, Setup};
use regrow_pool::trace::{self, Creation};
use serde::Serialize;

use crate::bench::median;
use crate::cli::{ExistingArg, ReplayArgs};
use crate::error::CliError;
use crate::table::{Kind, Table, output_width};

pub(crate) use self::plot::PlotError;

/// A trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    /// A file cannot be read.
    #[error("{path}: cannot be read")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The trace is none.
    #[error("{path}")]
    Trace {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: trace::TraceError,
    },
    /// The table of costs is none.
    #[error("{path}: no table of costs")]
    Costs {
        /// The file.
        path: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// There is no such policy.
    #[error("--policy: there is no policy '{name}' (one of {})", Choice::NAMES.join(", "))]
    Policy {
        /// The name that was given.
        name: String,
    },
    /// The simulator met what cannot be.
    #[error("policy {policy}")]
    Simulation {
        /// The policy.
        policy: String,
        /// What it was.
        source: sim::SimError,
    },
    /// A program cannot be started, or held.
    #[error("{program}: cannot be replayed")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Recorded gaps are for the simulator.
    #[error("--existing recorded: real processes are replayed one after the other")]
    RecordedAreSimulated,
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl From<UnknownPolicy> for ReplayError {
    fn from(UnknownPolicy(name): UnknownPolicy) -> Self {
        Self::Policy { name }
    }
}

/// One policy with one number of processes.
#[derive(Debug, Serialize)]
struct Run {
    existing: ExistingArg,
    /// `simulated` or `real`.
    mode: &'static str,
    #[serde(flatten)]
    report: Report,
}

/// All that was simulated.
#[derive(Debug, Serialize)]
struct Replay<'a> {
    trace: &'a str,
    /// Creations of programs that are not on this machine, which are left out.
    absent: usize,
    creations: usize,
    programs: usize,
    budget_bytes: u64,
    costs: &'a Costs,
    /// Which of the costs were measured on this machine.
    measured: &'a [&'static str],
    runs: Vec<Run>,
}

/// Carries out the command.
pub(crate) fn replay(args: &ReplayArgs) -> Result<u8, CliError> {
    for name in &args.policy {
        name.parse::<Choice>().map_err(ReplayError::from)?;
    }
    let recorded = read_trace(&args.trace)?;
    let given = args.costs.as_deref().map(read_costs).transpose()?;
    // Before the replay: a place that cannot be written to is not to be found out after it.
    if let Some(folder) = &args.plot {
        plot::make_folder(folder).map_err(ReplayError::from)?;
    }
    let json = args.json.as_deref().map(create).transpose()?;
    let (mut costs, mut measured) = match given {
        Some(costs) => (costs, Vec::new()),
        None => costs::measure()?,
    };
    let (mut trace, mut absent) = (recorded.clone(), 0);
    let mut programs = real::Programs::of(&recorded);
    if args.real {
        (trace, absent) = (programs.there(&recorded), programs.absent);
        measured.push("programs");
    }
    let names: BTreeSet<&str> = trace.iter().map(|creation| creation.program.as_str()).collect();
    let name = args.trace.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut runs, mut pauses) = (Vec::new(), Pauses::new());
    if args.real {
        (runs, pauses) = replay_really(args, &trace, &mut programs)?;
        programs.add_to(&mut costs)?;
    }
    if args.simulate || !args.real {
        runs.extend(simulate(args, &trace, &costs, &pauses)?);
    }
    let replay = Replay {
        trace: &name,
        absent,
        creations: trace.len(),
        programs: names.len(),
        budget_bytes: args.budget_mib << 20,
        costs: &costs,
        measured: &measured,
        runs,
    };
    print(&replay)?;
    if let Some((path, mut file)) = json {
        serde_json::to_writer(&mut file, &replay).map_err(CliError::Json)?;
        let written = file.write_all(b"\n").and_then(|()| file.flush());
        written.map_err(|source| CliError::Write { path: path.to_owned(), source })?;
    }
    if let Some(folder) = &args.plot {
        plot::draw(folder, &replay).map_err(ReplayError::from)?;
    }
    Ok(0)
}

fn open(path: &Path) -> Result<BufReader<File>, ReplayError> {
    let cannot = |source| ReplayError::Open { path: path.display().to_string(), source };
    File::open(path).map(BufReader::new).map_err(cannot)
}

/// A new file, and its path.
fn create(path: &Path) -> Result<(&Path, BufWriter<File>), CliError> {
    match File::create(path) {
        Ok(file) => Ok((path, BufWriter::new(file))),
        Err(source) => Err(CliError::Write { path: path.to_owned(), source }),
    }
}

fn read_trace(path: &Path) -> Result<Vec<Creation>, ReplayError> {
    let cannot = |source| ReplayError::Trace { path: path.display().to_string(), source };
    trace::read(open(path)?).map_err(cannot)
}

fn read_costs(path: &Path) -> Result<Costs, ReplayError> {
    let cannot = |source| ReplayError::Costs { path: path.display().to_string(), source };
    serde_json::from_reader(open(path)?).map_err(cannot)
}

/// For a number of processes how long the pool had nothing to do, because others had their turns, and after how many creations.
type Pauses = BTreeMap<ExistingArg, (usize, Duration)>;

fn simulate(
    args: &ReplayArgs,
    trace: &[Creation],
    costs: &Costs,
    pauses: &Pauses,
) -> Result<Vec<Run>, ReplayError> {
    let mut runs = Vec::new();
    for policy in &args.policy {
        for &existing in &args.existing {
            let choice = sim::choice(policy, costs)?;
            let setup = Setup {
                existing: match existing {
                    ExistingArg::Exactly(existing) => Existing::Exactly(existing),
                    ExistingArg::Recorded => Existing::Recorded,
                },
                budget_bytes: args.budget_mib << 20,
                pauses: pauses.get(&existing).copied(),
                ..Setup::new(trace, costs)
            };
            let cannot = |source| ReplayError::Simulation { policy: policy.clone(), source };
            runs.push(Run { existing, mode: "simulated", report: sim::run(&setup, choice).map_err(cannot)? });
        }
    }
    Ok(runs)
}

/// A trace replayed by every policy, in rounds.
pub(crate) struct Replayed {
    /// The number of processes, and the same run with real processes and in the simulator.
    pairs: Vec<(usize, Report, Report)>,
}

impl Replayed {
    /// The rounds with real processes in one: of each stretch of the trace the median time and memory.
    pub(crate) fn real(&self, policy: &str, existing: usize) -> Option<Point> {
        self.median(policy, existing, |(_, real, _)| real)
    }

    /// The same of the simulated rounds.
    pub(crate) fn simulated(&self, policy: &str, existing: usize) -> Option<Point> {
        self.median(policy, existing, |(_, _, simulated)| simulated)
    }

    fn median(
        &self,
        policy: &str,
        existing: usize,
        which: fn(&(usize, Report, Report)) -> &Report,
    ) -> Option<Point> {
        let rounds = self.pairs.iter().filter(|pair| pair.0 == existing && pair.1.policy == policy);
        let rounds: Vec<&[Point]> = rounds.map(|pair| which(pair).points.as_slice()).collect();
        let last = rounds.iter().map(|points| points.len()).min()?.checked_sub(1)?;
        let mut end = rounds.first()?.get(last).copied()?;
        end.time_us =
            (0..=last).map(|index| median(rounds.iter().map(|points| took_us(points, index)))).sum();
        let ends = || rounds.iter().filter_map(|points| points.get(last));
        end.kept_bytes = median(ends().map(|point| point.kept_bytes));
        end.mean_kept_bytes = median(ends().map(|point| point.mean_kept_bytes));
        end.in_body = median(ends().map(|point| point.in_body));
        Some(end)
    }
}

/// How long the creations up to this point took that are not before the point before.
fn took_us(points: &[Point], index: usize) -> f64 {
    let at = |index: usize| points.get(index).map_or(0.0, |point| point.time_us);
    at(index) - index.checked_sub(1).map_or(0.0, at)
}

/// Replays a trace by every policy in both ways, in rounds that each begin with another policy. The costs are measured in
/// each: a machine is not always equally fast.
pub(crate) fn replay_both(
    trace: &Path,
    existing: &[usize],
    rounds: usize,
    budget_bytes: u64,
) -> Result<Replayed, CliError> {
    let recorded = read_trace(trace)?;
    let mut programs = real::Programs::of(&recorded);
    let there = programs.there(&recorded);
    let mut replayed = Replayed { pairs: Vec::new() };
    let mut policy = regrow_pool::policy::Choice::NAMES.map(str::to_owned).to_vec();
    for round in 0..rounds {
        policy.rotate_left(usize::from(round > 0) * 2);
        for &number in existing {
            let args = ReplayArgs {
                trace: trace.to_owned(),
                policy: policy.clone(),
                existing: vec![ExistingArg::Exactly(number)],
                simulate: true,
                real: true,
                costs: None,
                budget_mib: budget_bytes >> 20,
                json: None,
                plot: None,
            };
            let (mut costs, _) = costs::measure()?;
            let (real, pauses) = replay_really(&args, &there, &mut programs)?;
            programs.add_to(&mut costs)?;
            let simulated = simulate(&args, &there, &costs, &pauses)?;
            let pairs = real.into_iter().zip(simulated);
            replayed.pairs.extend(pairs.map(|(real, simulated)| (number, real.report, simulated.report)));
        }
    }
    Ok(replayed)
}

/// Every policy with every number of processes, each in a pool of its own.
fn replay_really(
    args: &ReplayArgs,
    trace: &[Creation],
    programs: &mut real::Programs<'_>,
) -> Result<(Vec<Run>, Pauses), ReplayError> {
    let (mut runs, mut pauses) = (Vec::new(), Pauses::new());
    programs.prepare()?;
    for &existing in &args.existing {
        let ExistingArg::Exactly(number) = existing else { return Err(ReplayError::RecordedAreSimulated) };
        let in_a_pool = |policy: &String| -> Result<real::Replay, ReplayError> {
            let pool = Pool::builder()
                .policy(policy.parse()?)
                .budget_bytes(args.budget_mib << 20)
                .max_bodies_per_program(number + 8)
                .timed(true)
                .build();
            Ok(real::Replay::new(policy, pool))
        };
        let replays = args.policy.iter().map(in_a_pool).collect::<Result<_, _>>()?;
        let replayed = real::run(replays, (trace, &mut *programs), number)?;
        pauses.insert(existing, replayed.pauses);
        runs.extend(replayed.reports.into_iter().map(|report| Run { existing, mode: "real", report }));
    }
    Ok((runs, pauses))
}

fn print(replay: &Replay<'_>) -> Result<(), CliError> {
    let mut table = Table::new(&[
        ("policy", Kind::Left),
        ("mode", Kind::Left),
        ("existing", Kind::Right),
        ("time\nms", Kind::Right),
        ("kept\nMiB", Kind::Right),
        ("mean\nMiB", Kind::Right),
        ("in a ready\nbody", Kind::Right),
        ("with the\nimage", Kind::Right),
        ("in a\nshell", Kind::Right),
        ("from\nnothing", Kind::Right),
    ]);
    for Run { existing, mode, report } in &replay.runs {
        let end = report.end();
        table.row([
            report.policy.clone(),
            (*mode).to_owned(),
            existing.to_string(),
            format!("{:.1}", end.time_us / 1000.0),
            format!("{:.2}", mib(end.kept_bytes)),
            format!("{:.2}", mib(end.mean_kept_bytes)),
            end.in_body.to_string(),
            end.with_image.to_string(),
            end.in_shell.to_string(),
            end.from_nothing.to_string(),
        ]);
    }
    let head = format!(
        "{}: {} creations of {} programs{}; a start with nothing kept costs {:.0} µs, in a ready body {:.0} µs\n\n",
        replay.trace,
        replay.creations,
        replay.programs,
        if replay.absent > 0 {
            format!(" ({} more of programs that are not here)", replay.absent)
        } else {
            String::new()
        },
        replay.costs.whole.us,
        replay.costs.ready.us,
    );
    let text = head + &table.render(output_width());
    std::io::stdout().write_all(text.as_bytes()).map_err(CliError::Print)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
