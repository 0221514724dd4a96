//! A trace as what happened: each row was created, has executed its program and has ended.
//!
//! The processor time of a row is the one in the column `cpu_us`; in a trace without it, its life stands for it. The site of a row is the one in
//! the column `site`; in a trace without that column, the parent's program and arguments stand for it, with the number of the creation among
//! those of its parent, as the model fills it in.

use regrow_pool::trace::Creation;
use regrow_sites::site::{Frame, ImageId, Site};
use regrow_sites::{Arguments, Event, ProcessKey, Usage};

/// What happened, in the order of its times.
#[must_use]
pub fn events_of(trace: &[Creation]) -> Vec<Event> {
    let is_cpu = trace.iter().any(|row| row.cpu_us.is_some());
    let mut steps: Vec<(u64, Vec<Event>)> =
        (0..trace.len()).filter_map(|row| of_row(trace, row, is_cpu)).flatten().collect();
    steps.sort_by_key(|&(time_us, _)| time_us);
    steps.into_iter().flat_map(|(_, events)| events).collect()
}

/// The beginning and the end of a row; `None` when it has no time.
fn of_row(trace: &[Creation], row: usize, is_cpu: bool) -> Option<[(u64, Vec<Event>); 2]> {
    let creation = &trace[row];
    let maker = (creation.parent as usize).checked_sub(1).map(|parent| &trace[parent]);
    let life_us = creation.end_us.saturating_sub(creation.start_us);
    let cpu_us = if is_cpu { creation.cpu_us? } else { life_us };
    let key = |number: usize, start_us| ProcessKey {
        pid: u32::try_from(number).unwrap_or(0),
        created_us: start_us,
    };
    let site = Site {
        image: maker.map_or(ImageId::UNKNOWN, |maker| image(&maker.program)),
        frames: [creation.site.map(|offset| Frame { module: ImageId::UNKNOWN, offset }), None, None],
        script: None,
        child: None,
    };
    let (time_us, process) = (creation.start_us, key(row + 1, creation.start_us));
    let parent = key(creation.parent as usize, maker.map_or(0, |maker| maker.start_us));
    let arguments = Arguments { magnitude: 0, class: low(creation.argv_hash) };
    let begins = vec![
        Event::Created { time_us, process, parent, site },
        Event::Executed { time_us, process, image: image(&creation.program) },
        Event::Arguments { process, arguments, hash: creation.argv_hash },
    ];
    let usage = Usage { cpu_us, life_us, peak_kib: creation.peak_kib.unwrap_or(0), startup_us: None };
    let ends = vec![Event::Ended { time_us: creation.end_us, process, usage }];
    Some([(time_us, begins), (creation.end_us, ends)])
}

fn image(program: &str) -> ImageId {
    ImageId::of_build_id(program.as_bytes())
}

fn low(hash: u64) -> u32 {
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}
