//! The rows of a trace, built from what a preloaded library tells of processes.

use std::collections::HashMap;

use regrow_pool::trace::Creation;
use regrow_sites::{Event, ImageId, ProcessKey};

/// A process that was told of.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    /// The row of the program that it runs, from 0.
    row: Option<usize>,
    /// The row whose program created it.
    maker: Option<usize>,
    /// Where it was created, until it executes a program.
    site: Option<u64>,
    executions: u32,
}

/// A row that is not finished: its program and the row that asked for it have no number yet.
#[derive(Debug, Default)]
struct Row {
    image: Option<ImageId>,
    maker: Option<usize>,
    creation: Creation,
}

/// Builds rows from events.
#[derive(Debug, Default)]
struct Rows {
    all: HashMap<ProcessKey, Told>,
    rows: Vec<Row>,
    names: HashMap<ImageId, String>,
}

/// At most so many rows, in the order of their beginnings, and how many were left out. What has not ended ends with the last one that has. Times
/// are since the first row.
pub(super) fn rows(events: &[Event], limit: usize) -> (Vec<Creation>, u64) {
    let mut building = Rows::default();
    events.iter().for_each(|event| building.take(event));
    let mut rows = building.finish();
    let left_out = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    (rows, left_out as u64)
}

impl Rows {
    fn take(&mut self, event: &Event) {
        match event {
            Event::Created { process, parent, site, .. } => {
                let of_parent = self.all.get(parent).copied().unwrap_or_default();
                let site = (site.image != ImageId::UNKNOWN).then(|| site.place_hash());
                let told = Told { maker: of_parent.row.or(of_parent.maker), site, ..Told::default() };
                self.all.insert(*process, told);
            }
            Event::Executed { process, time_us, image } => self.executed(*process, *time_us, *image),
            Event::Arguments { process, hash, .. } => {
                if let Some(row) = self.row(*process) {
                    row.creation.argv_hash = *hash;
                }
            }
            Event::Ended { process, time_us, usage } => {
                let is_only = self.all.get(process).is_some_and(|told| told.executions == 1);
                if let Some(row) = self.row(*process) {
                    row.creation.end_us = *time_us;
                    row.creation.cpu_us = is_only.then_some(usage.cpu_us);
                    row.creation.peak_kib = Some(usage.peak_kib).filter(|&kib| is_only && kib > 0);
                }
            }
            Event::Named { image, path } => {
                self.names.insert(*image, path.clone());
            }
            Event::Outlived { .. } | Event::Symbol { .. } => {}
        }
    }

    /// The row of the program that a process runs.
    fn row(&mut self, process: ProcessKey) -> Option<&mut Row> {
        self.rows.get_mut(self.all.get(&process)?.row?)
    }

    fn executed(&mut self, process: ProcessKey, time_us: u64, image: ImageId) {
        if let Some(before) = self.row(process) {
            before.creation.end_us = time_us;
        }
        let told = self.all.entry(process).or_default();
        let maker = told.row.or(told.maker);
        let creation =
            Creation { start_us: time_us, end_us: u64::MAX, site: told.site.take(), ..Creation::default() };
        (told.row, told.executions) = (Some(self.rows.len()), told.executions + 1);
        self.rows.push(Row { image: Some(image), maker, creation });
    }

    fn finish(self) -> Vec<Creation> {
        let Rows { rows, names, .. } = self;
        let last_us = rows.iter().map(|row| row.creation.end_us).filter(|&end_us| end_us != u64::MAX).max();
        let first_us = rows.iter().map(|row| row.creation.start_us).min().unwrap_or(0);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| rows[row].creation.start_us);
        let mut numbers = vec![0; rows.len()];
        (1..).zip(&order).for_each(|(number, &row)| numbers[row] = number);
        let mut finished: Vec<(u32, Creation)> = Vec::new();
        for (row, Row { image, maker, creation }) in rows.into_iter().enumerate() {
            let name = image.and_then(|image| names.get(&image)).cloned();
            let number = numbers[row];
            // Who was told late is not its parent in the trace.
            let parent = maker.map_or(0, |maker| numbers[maker]);
            let end_us = if creation.end_us == u64::MAX { last_us.unwrap_or(0) } else { creation.end_us };
            let start_us = creation.start_us - first_us;
            finished.push((
                number,
                Creation {
                    program: name.unwrap_or_else(|| "unknown".to_owned()),
                    parent: if parent < number { parent } else { 0 },
                    start_us,
                    end_us: end_us.saturating_sub(first_us).max(start_us),
                    ..creation
                },
            ));
        }
        finished.sort_by_key(|&(number, _)| number);
        finished.into_iter().map(|(_, creation)| creation).collect()
    }
}

#[cfg(test)]
mod tests {
    use regrow_sites::{Arguments, Site, Usage};

    use super::*;

    fn key(pid: u32) -> ProcessKey {
        ProcessKey { pid, created_us: u64::from(pid) * 10 }
    }

    fn created(pid: u32, parent: u32) -> Event {
        let site = Site { image: ImageId(1), frames: [None; 3], script: None, child: None };
        Event::Created { time_us: u64::from(pid) * 10, process: key(pid), parent: key(parent), site }
    }

    fn executed(pid: u32, image: u64, time_us: u64) -> Event {
        Event::Executed { time_us, process: key(pid), image: ImageId(image) }
    }

    fn ended(pid: u32, time_us: u64) -> Event {
        let usage = Usage { cpu_us: 7, life_us: 9, peak_kib: 100, startup_us: None };
        Event::Ended { time_us, process: key(pid), usage }
    }

    #[test]
    fn a_process_that_executes_twice_has_two_rows_and_a_fork_none() {
        let arguments = Arguments { magnitude: 0, class: 1 };
        let events = [
            created(1, 0),
            executed(1, 11, 100),
            Event::Named { image: ImageId(11), path: "/bin/sh".to_owned() },
            Event::Arguments { process: key(1), arguments, hash: 77 },
            created(2, 1),
            // A subshell, which makes another process.
            created(3, 2),
            executed(3, 12, 200),
            executed(3, 13, 300),
            ended(3, 400),
            created(4, 1),
            executed(4, 11, 350),
            ended(4, 500),
            ended(2, 410),
        ];
        let (all, left_out) = rows(&events, 9);
        assert_eq!(left_out, 0);
        let parents: Vec<(&str, u32)> = all.iter().map(|row| (row.program.as_str(), row.parent)).collect();
        assert_eq!(parents, [("/bin/sh", 0), ("unknown", 1), ("unknown", 2), ("/bin/sh", 1)]);
        assert_eq!(all[0].argv_hash, 77);
        let times: Vec<(u64, u64)> = all.iter().map(|row| (row.start_us, row.end_us)).collect();
        assert_eq!(times, [(0, 400), (100, 200), (200, 300), (250, 400)]);
        let of = |row: &Creation| (row.cpu_us, row.peak_kib, row.site.is_some());
        assert_eq!(of(&all[2]), (None, None, false), "it is not known which of the two programs used it");
        assert_eq!(of(&all[3]), (Some(7), Some(100), true));
        assert_eq!(rows(&events, 3).1, 1);
    }
}
