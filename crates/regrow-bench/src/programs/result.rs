//! What is measured of a program, as JSON has it. Readers rely on the keys.

use std::collections::BTreeMap;

use serde::Serialize;

use super::throughput::Throughput;
use crate::samples::Percentiles;

/// What was measured of one program. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramResult {
    /// The program with its arguments.
    pub program: String,
    /// The timed runs by each method.
    pub runs: u32,
    /// `clone(CLONE_VM)`, exit and wait.
    pub floor_us: Option<Percentiles>,
    /// From a futex's wake to another process running.
    pub wake_us: Option<Percentiles>,
    /// `posix_spawn`, from call to end seen.
    pub posix_spawn_us: Option<Percentiles>,
    /// Regrow, from call to end seen.
    pub regrow_us: Option<Percentiles>,
    /// Regrow, from call to the program's first instruction.
    pub to_main_us: Option<Percentiles>,
    /// From the end of a run in a body until the body is ready again.
    pub reset_us: Option<Percentiles>,
    /// CPU time of one run.
    pub cpu_us: CpuUs,
    /// How much memory a kept body holds.
    pub body_kib: Option<f64>,
    /// The snapshot point.
    pub point: Option<&'static str>,
    /// How many of Regrow's runs were recycled.
    pub recycled: u64,
    /// Why the others were not.
    pub fallbacks: BTreeMap<&'static str, u64>,
    /// How many times faster Regrow is, by the medians.
    pub ratio_p50: Option<f64>,
    /// The time from the call to the program's first instruction, as a multiple of a wake in the same minutes; by the medians.
    pub to_main_of_wake_p50: Option<f64>,
    /// The CPU time of a run by Regrow, its reset included, as a part of that by `posix_spawn`.
    pub cpu_of_posix_spawn: Option<f64>,
    /// Runs a second without a pause.
    pub throughput: Vec<Throughput>,
    /// Regrow where a body serves one run, if that was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_use: Option<SingleUseResult>,
    /// The prototype, if it ran the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prototype: Option<PrototypeResult>,
    /// Why the prototype did not, if it was asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_prototype: Option<String>,
}

/// What was measured of the prototype, in turn with the others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrototypeResult {
    /// The timed runs that entered `main` in a task of the prototype.
    pub runs: usize,
    /// From call to end seen.
    pub us: Option<Percentiles>,
    /// From call to the jump to `main`.
    pub to_main_us: Option<Percentiles>,
    /// Regrow's time as a multiple of the prototype's, by the medians.
    pub regrow_of_prototype_p50: Option<f64>,
}

/// What was measured of runs whose body serves no other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SingleUseResult {
    /// From call to end seen.
    pub us: Option<Percentiles>,
    /// How many runs had a body that was ready, or was forked for them.
    pub recycled: u64,
    /// Why the others had none.
    pub fallbacks: BTreeMap<&'static str, u64>,
}

/// CPU time of one run: of the caller, of the run, and of what Regrow does after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuUs {
    /// By `posix_spawn`.
    pub posix_spawn: f64,
    /// By Regrow.
    pub regrow: f64,
    /// By Regrow where a body serves one run, its making and its end included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_use: Option<f64>,
    /// By the prototype, its reset included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prototype: Option<f64>,
}

/// A result for tests.
#[cfg(test)]
pub(super) fn example() -> ProgramResult {
    let times = |p50: f64| Some(Percentiles { p50, p99: p50 * 2.0 });
    ProgramResult {
        program: "sh -c :".to_owned(),
        runs: 10,
        floor_us: times(30.0),
        wake_us: times(4.0),
        posix_spawn_us: times(600.0),
        regrow_us: times(30.0),
        to_main_us: None,
        reset_us: times(25.0),
        cpu_us: CpuUs { posix_spawn: 500.0, regrow: 60.0, single_use: Some(300.0), prototype: Some(45.0) },
        body_kib: Some(211.4),
        point: Some("main"),
        recycled: 9,
        fallbacks: BTreeMap::from([("all_busy", 1)]),
        ratio_p50: Some(20.0),
        to_main_of_wake_p50: None,
        cpu_of_posix_spawn: Some(0.12),
        throughput: vec![Throughput {
            clients: 1,
            posix_spawn_per_s: 1500.0,
            regrow_per_s: 15000.0,
            ratio: 10.0,
            single_use_per_s: Some(4500.0),
            runs: 40,
            recycled: 40,
            fallbacks: BTreeMap::new(),
        }],
        single_use: Some(SingleUseResult { us: times(40.0), recycled: 8, fallbacks: BTreeMap::new() }),
        prototype: Some(PrototypeResult {
            runs: 10,
            us: times(25.0),
            to_main_us: times(5.0),
            regrow_of_prototype_p50: Some(1.2),
        }),
        without_prototype: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_json_are_those_that_readers_rely_on() {
        let json = serde_json::to_value(example()).unwrap();
        for key in ["floor_us", "wake_us", "posix_spawn_us", "regrow_us", "reset_us"] {
            assert!(json[key]["p50"].is_f64() && json[key]["p99"].is_f64(), "{key}: {json}");
        }
        assert!(json["to_main_us"].is_null());
        assert_eq!(json["program"], "sh -c :");
        assert_eq!((&json["runs"], &json["recycled"]), (&10.into(), &9.into()));
        assert_eq!(
            (&json["cpu_us"]["posix_spawn"], &json["cpu_us"]["regrow"]),
            (&500.0.into(), &60.0.into())
        );
        assert_eq!((&json["body_kib"], &json["point"]), (&211.4.into(), &"main".into()));
        assert_eq!((&json["fallbacks"]["all_busy"], &json["ratio_p50"]), (&1.into(), &20.0.into()));
        assert_eq!(json["throughput"][0]["ratio"], 10.0);
        assert_eq!(
            (&json["single_use"]["us"]["p50"], &json["single_use"]["recycled"]),
            (&40.0.into(), &8.into())
        );
        assert_eq!(json["throughput"][0]["single_use_per_s"], 4500.0);
        assert!(json["to_main_of_wake_p50"].is_null());
        assert_eq!(json["cpu_of_posix_spawn"], 0.12);
        assert_eq!(json["cpu_us"]["prototype"], 45.0);
        let prototype = &json["prototype"];
        assert_eq!((&prototype["runs"], &prototype["us"]["p50"]), (&10.into(), &25.0.into()));
        assert_eq!(prototype["regrow_of_prototype_p50"], 1.2);
        assert_eq!(json.get("without_prototype"), None);
    }
}
