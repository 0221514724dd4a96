//! `regrow doctor`: what this machine offers, and whether Regrow recycles processes on it.
//!
//! The probe tries each feature of the kernel. The verdict comes from real runs: at each snapshot point a pool runs a
//! program, and recycles it or does not.

use std::io::Write as _;

use regrow::{Point, PointChoice, Pool, Stdio};
use regrow_machine::{Machine, MachineOptions};
use regrow_sys::disable::FeatureSet;
use regrow_sys::probe::{FeatureRow, Kernel, MachineFacts, Need};
use serde::Serialize;

use crate::cli::setup::DoctorArgs;
use crate::error::CliError;
use crate::message::chain;
use regrow_bench::table::{Alignment, TextTable, output_width};

/// The program that runs at each snapshot point.
const TRIAL_PROGRAM: &str = "/bin/true";
/// The snapshot points, from shallow to deep.
const POINTS: [Point; 2] = [Point::Entry, Point::Main];
/// The exit status when Regrow recycles nothing here.
const NOT_RECYCLED: u8 = 1;

/// Everything that the command prints.
#[derive(Debug, Serialize)]
struct DoctorReport<'a> {
    facts: &'a MachineFacts,
    /// The features that `REGROW_DISABLE` names.
    disabled: Vec<&'static str>,
    features: Vec<FeatureRow>,
    points: Vec<PointTrial>,
    can_recycle: bool,
    whole_machine: MachineTrial,
    verdict: String,
}

/// Whether creation sites of the whole machine are seen.
#[derive(Debug, Serialize)]
struct MachineTrial {
    works: bool,
    /// Why they are not, in words.
    reason: Option<String>,
}

/// Whether the trial program was recycled at one point.
#[derive(Debug, Serialize)]
struct PointTrial {
    point: &'static str,
    recycles: bool,
    /// Why it was not, in words.
    reason: Option<String>,
}

/// Carries out the command.
pub(crate) fn doctor(args: &DoctorArgs, disabled: &FeatureSet) -> Result<u8, CliError> {
    let kernel = Kernel::probe(disabled);
    let points: Vec<PointTrial> = POINTS.into_iter().map(|point| try_point(point, &kernel)).collect();
    let can_recycle = points.iter().any(|trial| trial.recycles);
    let findings = DoctorReport {
        facts: kernel.facts(),
        disabled: disabled.iter().map(regrow_sys::probe::Feature::name).collect(),
        features: kernel.report(),
        verdict: verdict(&points),
        points,
        can_recycle,
        whole_machine: try_machine(),
    };
    let text = if args.json {
        let json = serde_json::to_string_pretty(&findings).map_err(CliError::Json)?;
        format!("{json}\n")
    } else {
        findings.as_text(output_width())
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(CliError::Print)?;
    Ok(if can_recycle { 0 } else { NOT_RECYCLED })
}

/// Tries to recycle at one point.
fn try_point(point: Point, kernel: &Kernel) -> PointTrial {
    let reason = if kernel.can_recycle() { recycle_at(point).err() } else { Some(lacks(kernel)) };
    PointTrial { point: point.name(), recycles: reason.is_none(), reason }
}

/// Looks at the whole machine for a moment.
fn try_machine() -> MachineTrial {
    let reason = Machine::start(&MachineOptions::default()).err().map(|error| chain(&error));
    MachineTrial { works: reason.is_none(), reason }
}

/// The required features that do not work, in words.
fn lacks(kernel: &Kernel) -> String {
    let missing: Vec<String> =
        kernel.missing_required().map(|feature| format!("{feature} is {}", kernel.state(feature))).collect();
    missing.join("; ")
}

/// Runs the trial program out of a pool that knows one point alone. The error is the reason why it was not recycled.
fn recycle_at(point: Point) -> Result<(), String> {
    let pool = Pool::builder().point(PointChoice::Only(point)).build();
    let mut command = pool.command(TRIAL_PROGRAM);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    pool.prepare(&command).map_err(|error| chain(&error))?;
    let mut child = command.spawn().map_err(|error| format!("{TRIAL_PROGRAM}: {error}"))?;
    let creation = child.creation().clone();
    let status = child.wait().map_err(|error| format!("{TRIAL_PROGRAM}: {error}"))?;
    match creation.fallback() {
        Some(why) => Err(format!("{TRIAL_PROGRAM}: {why}")),
        None if !status.success() => Err(format!("{TRIAL_PROGRAM} ended with {status}")),
        None => Ok(()),
    }
}

/// The conclusion, a sentence.
fn verdict(points: &[PointTrial]) -> String {
    let works: Vec<&str> = points.iter().filter(|trial| trial.recycles).map(|trial| trial.point).collect();
    match works.as_slice() {
        [] => "Regrow starts everything by exec here.".to_owned(),
        [point] => format!("Regrow recycles processes here, at the point {point} alone."),
        points => format!("Regrow recycles processes here, at the points {}.", points.join(" and ")),
    }
}

impl DoctorReport<'_> {
    fn as_text(&self, width: usize) -> String {
        let mut text = self.facts_as_text();
        text.push('\n');
        text.push_str(&self.features_as_text(width));
        text.push('\n');
        for row in &self.features {
            if let Some(reason) = &row.reason {
                let (feature, need) = (row.feature, need_word(row.need));
                text.push_str(&format!("{feature} ({need}) is not used: {reason}.\n"));
            }
        }
        for trial in &self.points {
            if let Some(reason) = &trial.reason {
                text.push_str(&format!("Nothing is recycled at the point {}: {reason}.\n", trial.point));
            }
        }
        if let Some(reason) = &self.whole_machine.reason {
            text.push_str(&format!("regrow sites --system does not work: {reason}.\n"));
        }
        text.push_str(&self.verdict);
        text.push('\n');
        text
    }

    fn facts_as_text(&self) -> String {
        let facts = self.facts;
        let scope = facts.yama_ptrace_scope.map_or_else(|| "no Yama".to_owned(), |scope| scope.to_string());
        let cgroup =
            facts.cgroup.as_ref().map_or_else(|| "none".to_owned(), |place| place.own.display().to_string());
        let float_state =
            facts.extended_state.bytes.map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes"));
        let uffd = if facts.uffd_user_mode_only { "faults in user mode alone" } else { "all faults" };
        [
            ("kernel", format!("Linux {} {}", facts.release, facts.architecture)),
            ("cores", facts.cores.to_string()),
            ("page", format!("{} bytes", facts.page_bytes)),
            ("processor state", float_state),
            ("ptrace scope", scope),
            ("userfaultfd", uffd.to_owned()),
            ("cgroup v2", cgroup),
        ]
        .map(|(name, value)| format!("{name:<16}{value}\n"))
        .concat()
    }

    fn features_as_text(&self, width: usize) -> String {
        let mut table = TextTable::new(&[
            ("feature", Alignment::Left),
            ("since", Alignment::Left),
            ("need", Alignment::Left),
            ("state", Alignment::Left),
            ("with it", Alignment::Text),
            ("without it", Alignment::Text),
        ]);
        for row in &self.features {
            let cells = [row.feature, row.since, need_word(row.need), row.state, row.with, row.without]
                .map(str::to_owned);
            table.row(cells);
        }
        table.render(width)
    }
}

const fn need_word(need: Need) -> &'static str {
    match need {
        Need::Required => "required",
        Need::Optional => "optional",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(point: &'static str, recycles: bool) -> PointTrial {
        PointTrial { point, recycles, reason: (!recycles).then(|| "a reason".to_owned()) }
    }

    #[test]
    fn the_verdict_names_the_points_that_work() {
        let none = [trial("entry", false), trial("main", false)];
        assert_eq!(verdict(&none), "Regrow starts everything by exec here.");
        let one = [trial("entry", true), trial("main", false)];
        assert_eq!(verdict(&one), "Regrow recycles processes here, at the point entry alone.");
        let both = [trial("entry", true), trial("main", true)];
        assert_eq!(verdict(&both), "Regrow recycles processes here, at the points entry and main.");
    }

    #[test]
    fn a_kernel_that_lacks_what_is_needed_is_not_tried() {
        let kernel = Kernel::probe(&FeatureSet::parse("clone3,pidfd").unwrap());
        let trial = try_point(Point::Main, &kernel);
        assert!(!trial.recycles);
        assert_eq!(
            trial.reason.unwrap(),
            "clone3 is disabled by REGROW_DISABLE; pidfd is disabled by REGROW_DISABLE"
        );
    }

    #[test]
    fn the_text_has_every_feature_and_every_reason() {
        let kernel = Kernel::probe(&FeatureSet::parse("kcmp").unwrap());
        let findings = DoctorReport {
            facts: kernel.facts(),
            disabled: vec!["kcmp"],
            features: kernel.report(),
            points: vec![trial("entry", false), trial("main", true)],
            can_recycle: true,
            whole_machine: MachineTrial { works: false, reason: Some("no right".to_owned()) },
            verdict: "The verdict.".to_owned(),
        };
        let text = findings.as_text(100);
        for row in &findings.features {
            assert!(text.contains(&format!("\n{} ", row.feature)), "{}: {text}", row.feature);
        }
        assert!(text.contains("\nkcmp (optional) is not used: disabled by REGROW_DISABLE.\n"), "{text}");
        assert!(text.contains("\nNothing is recycled at the point entry: a reason.\n"), "{text}");
        assert!(text.contains("\nregrow sites --system does not work: no right.\n"), "{text}");
        assert!(text.ends_with("\nThe verdict.\n"), "{text}");
    }
}
