//! Has children be scheduled by what is predicted about them: classes go to the channel, where the library of each process finds them; and a
//! process that outlives its class is scheduled anew from here.
//!
//! A timer in the process would do as well, and the process would see it: its signal, or one timer less. From here nothing is seen but the
//! way it is scheduled.

use std::collections::HashSet;

use regrow_abi::sites::{Channel, Class, Place};
use regrow_sites::{Event, ImageId, Site};
use regrow_sys::scheduling::processor_time_ns;

use super::processes::{Processes, Touched, site_of};
use crate::scheduling::{Scheduling, outlived_now};

/// Publishes the classes of all sites of which something was learned since this was called last, where there is a channel that is scheduled by.
pub(super) fn publish(
    processes: &mut Processes,
    channel: Option<Channel<'_>>,
    class_of: &mut dyn FnMut(&Site) -> Class,
) {
    let touched: HashSet<_> = processes.touched.drain(..).collect();
    let Some(channel) = channel else { return };
    let predictions = channel.predictions();
    for Touched { place, executed } in touched {
        for (key, site) in sites_of(&place, executed) {
            predictions.put(key, class_of(&site));
        }
    }
}

/// Schedules those as long ones that have outlived the limit. Gives how many were scheduled anew, and tells of all.
pub(super) fn take_back(processes: &mut Processes, scheduling: Scheduling) -> (u64, Vec<Event>) {
    let (mut taken_back, mut outlived, mut touched) = (0, Vec::new(), Vec::new());
    for (&pid, process) in &mut processes.all {
        if process.is_taken_back {
            continue;
        }
        let Ok(pid) = i32::try_from(pid) else { continue };
        let Ok(clock_ns) = processor_time_ns(pid) else { continue };
        process.clock_ns = process.clock_ns.max(clock_ns);
        if scheduling.has_outlived(&process.key(), clock_ns) {
            process.is_taken_back = true;
            outlived.push(outlived_now(process.key(), clock_ns));
            touched.push(process.touched());
            // One that was a long one from the beginning may have been given back its niceness since, by its parent or by itself.
            let is_changed = scheduling.apply(pid, Class::Long);
            taken_back += u64::from(is_changed && process.class != Class::Long);
        }
    }
    processes.touched.extend(touched);
    (taken_back, outlived)
}

/// The sites that predictions stand under, each with its key: see [`Place::keys`].
fn sites_of(place: &Place, executed: Option<(u64, ImageId)>) -> Vec<(u64, Site)> {
    let [all, script, call] = place.keys();
    let whole = site_of(place, None);
    let [first, ..] = whole.frames;
    let in_script = Site { frames: [first, None, None], ..whole };
    let at_call = Site { script: None, ..in_script };
    let mut sites = vec![(all, whole), (script, in_script), (call, at_call)];
    if let Some((path, image)) = executed.filter(|&(path, _)| path != 0) {
        let child = Some(image);
        let alone = Site { image: ImageId::UNKNOWN, frames: [None; 3], script: None, child };
        sites.extend([
            (Place::key_with_path(all, path), Site { child, ..whole }),
            (Place::key_with_path(call, path), Site { child, ..at_call }),
            (Place::key_of_path(path), alone),
        ]);
    }
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_predictions_of_its_own() {
        let place = Place { image: 1, frames: [(2, 3), (4, 5), (0, 0)], script: (6, 7) };
        let image = ImageId(9);
        let with = sites_of(&place, Some((8, image)));
        assert_eq!(with.len(), 6);
        assert!(with.iter().skip(3).all(|(_, site)| site.child == Some(image)));
        assert_eq!(sites_of(&place, None), with[..3]);
        assert_eq!(sites_of(&place, Some((0, image))), with[..3], "no path was told");
    }
}
