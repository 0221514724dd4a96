//! The rows of a trace, built from what happens to processes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::time::Instant;

use regrow_pool::trace::{self, Creation, argv_hash};
use regrow_sys::follow::Happened;

use crate::system::native::cpu_time;

/// A process that lives.
#[derive(Debug, Clone, Copy, Default)]
struct TracedProcess {
    /// The row of the program that it runs, if it executed one itself.
    row: Option<usize>,
    /// The number of the row whose program created it; 0 for none.
    maker: u32,
    /// The most memory that it had resident.
    peak_kib: Option<u64>,
    /// Its processor time when it executed the program.
    cpu_before_us: Option<u64>,
    /// Its processor time since then.
    cpu_us: Option<u64>,
}

impl TracedProcess {
    /// Notes its processor time.
    fn used(&mut self, cpu_us: Option<u64>) {
        let since = cpu_us.zip(self.cpu_before_us).map(|(used, before)| used.saturating_sub(before));
        self.cpu_us = self.cpu_us.max(since);
    }
}

/// Builds the rows of a trace from what happens to processes.
#[derive(Debug)]
pub(super) struct TraceBuilder {
    began: Instant,
    limit: usize,
    rows: Vec<Creation>,
    alive: HashMap<i32, TracedProcess>,
    pub(super) left_out: u64,
}

impl TraceBuilder {
    pub(super) fn new(limit: Option<usize>) -> TraceBuilder {
        TraceBuilder {
            began: Instant::now(),
            limit: limit.unwrap_or(trace::MOST).min(trace::MOST),
            rows: Vec::new(),
            alive: HashMap::new(),
            left_out: 0,
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(super) fn take(&mut self, happened: Happened) {
        match happened {
            Happened::Born { pid, parent } => {
                let parent = self.alive.get(&parent).copied().unwrap_or_default();
                let maker = parent.row.map_or(parent.maker, number);
                self.alive.insert(pid, TracedProcess { maker, ..TracedProcess::default() });
            }
            Happened::Executed { pid } => self.executed(pid, &program(pid), argv_hash(&cmdline(pid))),
            Happened::Reached { .. } => {}
            Happened::Leaving { pid } => {
                let peak_kib = peak_kib(pid);
                let alive = self.alive.entry(pid).or_default();
                alive.peak_kib = alive.peak_kib.max(peak_kib);
                alive.used(cpu_us(pid));
            }
            Happened::Gone { pid, .. } => {
                if let Some(alive) = self.alive.remove(&pid) {
                    self.ended(alive);
                }
            }
        }
    }

    fn executed(&mut self, pid: i32, program: &str, argv_hash: u64) {
        let mut before = self.alive.remove(&pid).unwrap_or_default();
        let cpu_before_us = cpu_us(pid);
        before.used(cpu_before_us);
        // The memory of the program before is gone, and its peak with it.
        self.ended(TracedProcess { peak_kib: None, ..before });
        let maker = before.row.map_or(before.maker, number);
        let start_us = self.now_us();
        let row = if self.rows.len() < self.limit {
            let program = program.to_owned();
            self.rows.push(Creation {
                program,
                argv_hash,
                parent: maker,
                start_us,
                end_us: start_us,
                ..Creation::default()
            });
            Some(self.rows.len() - 1)
        } else {
            self.left_out += 1;
            None
        };
        self.alive.insert(pid, TracedProcess { row, maker, cpu_before_us, ..TracedProcess::default() });
    }

    fn ended(&mut self, alive: TracedProcess) {
        let end_us = self.now_us();
        if let Some(row) = alive.row.and_then(|row| self.rows.get_mut(row)) {
            (row.end_us, row.peak_kib, row.cpu_us) = (end_us, alive.peak_kib, alive.cpu_us);
        }
    }

    /// The rows. A process that still lives ends at this moment.
    pub(super) fn finish(&mut self) -> Vec<Creation> {
        let alive: Vec<TracedProcess> = self.alive.drain().map(|(_, alive)| alive).collect();
        alive.into_iter().for_each(|alive| self.ended(alive));
        std::mem::take(&mut self.rows)
    }
}

/// The number of a row.
fn number(row: usize) -> u32 {
    u32::try_from(row + 1).unwrap_or(u32::MAX)
}

/// The file of the program that a stopped process runs.
fn program(pid: i32) -> String {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default().into_os_string();
    let name = String::from_utf8_lossy(&path.into_vec()).into_owned();
    let name = name.strip_suffix(" (deleted)").map_or(name.clone(), str::to_owned);
    if name.is_empty() { "unknown".to_owned() } else { name }
}

fn cmdline(pid: i32) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The processor time of a stopped process, with all its threads.
fn cpu_us(pid: i32) -> Option<u64> {
    u64::try_from(cpu_time(pid)?.as_micros()).ok()
}

fn peak_kib(pid: i32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_executes_twice_has_two_rows_and_a_fork_none() {
        let mut recording = TraceBuilder::new(Some(4));
        recording.executed(10, "/bin/sh", 1);
        recording.take(Happened::Born { pid: 11, parent: 10 });
        // A subshell, which makes another process.
        recording.take(Happened::Born { pid: 12, parent: 11 });
        recording.executed(12, "/usr/bin/env", 2);
        recording.executed(12, "/usr/bin/perl", 3);
        recording.take(Happened::Gone { pid: 12, status: 0 });
        recording.take(Happened::Gone { pid: 11, status: 0 });
        recording.executed(10, "/bin/true", 4);
        recording.executed(10, "/bin/false", 5);
        assert_eq!(recording.left_out, 1);
        let rows = recording.finish();
        let parents: Vec<(&str, u32)> = rows.iter().map(|row| (row.program.as_str(), row.parent)).collect();
        assert_eq!(parents, [("/bin/sh", 0), ("/usr/bin/env", 1), ("/usr/bin/perl", 2), ("/bin/true", 1)]);
        assert!(rows.iter().all(|row| row.end_us >= row.start_us));
        assert!(rows[1].end_us <= rows[2].end_us && rows[2].end_us <= rows[0].end_us);
    }
}
