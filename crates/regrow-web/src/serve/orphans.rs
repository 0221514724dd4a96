//! Processes that scripts have left behind in a process group of their own, where the end of the script's group does not reach them.
//!
//! ```text
//!  script ──setsid──> daemon     the script ends: the daemon becomes a child of the gateway (PR_SET_CHILD_SUBREAPER)
//!                                a sweep sees an orphan, but not which script has left it
//!                                every script that ran at that sweep has ended ──> a later sweep kills the orphan
//! ```
//!
//! A running script may still use a process that it has put into a session of its own. So the gateway kills an orphan only when no
//! script can be its owner. Three kinds of children are no orphans: those from before the gateway took over, those in the gateway's
//! own group (seeds and unused keepers), and those that a pool knows (other keepers, armed processes).

use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;

use rustix::process::{getpid, set_child_subreaper};

use crate::serve::children::{self, ChildState};
use crate::serve::pools::Pools;

/// The orphans of a gateway.
pub(crate) struct Orphans {
    own_group: i32,
    /// Children from before.
    strangers: HashSet<i32>,
    pools: Rc<Pools>,
    sightings: Sightings,
}

impl Orphans {
    /// Makes this process the parent of all descendants that lose their parent.
    pub(crate) fn take_over(pools: Rc<Pools>) -> io::Result<Self> {
        let strangers = children::pids()?.into_iter().collect();
        // Where the group is in another PID namespace this is 0, as it is for the children.
        let own_group = ChildState::read(getpid().as_raw_pid()).ok_or(io::ErrorKind::NotFound)?.group;
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_group, strangers, pools, sightings: Sightings::default() })
    }

    /// Kills the orphans that no script can own, and waits for those that have ended. `scripts` are the groups of the running
    /// scripts. Returns whether there are orphans: their end may leave others.
    pub(crate) fn sweep(&mut self, scripts: &HashSet<i32>) -> bool {
        let orphans = self.find(scripts);
        for orphan in self.sightings.select(&orphans, scripts) {
            if !orphan.has_ended {
                tracing::warn!(pid = orphan.pid, "kills a process that a script has left behind");
            }
            orphan.end();
        }
        !orphans.is_empty()
    }

    /// Kills all orphans. Returns whether there were any.
    pub(crate) fn end_all(&self, scripts: &HashSet<i32>) -> bool {
        let orphans = self.find(scripts);
        orphans.iter().for_each(ChildState::end);
        !orphans.is_empty()
    }

    fn find(&self, scripts: &HashSet<i32>) -> Vec<ChildState> {
        let pids = children::pids().unwrap_or_default().into_iter();
        pids.filter(|pid| !self.strangers.contains(pid))
            .filter_map(ChildState::read)
            .filter(|child| is_orphan(child, self.own_group, scripts) && !self.pools.is_used(child.pid))
            .collect()
    }
}

/// Whether a child is in no script's group and not in the gateway's. One that has ended may be in a script's group: the script's own
/// process is reaped elsewhere.
fn is_orphan(child: &ChildState, own_group: i32, scripts: &HashSet<i32>) -> bool {
    !scripts.contains(&child.pid)
        && child.group != own_group
        && (child.has_ended || !scripts.contains(&child.group))
}

/// Which scripts may own each orphan: those that have run at every sweep since the first that saw the orphan.
#[derive(Default)]
struct Sightings(HashMap<i32, HashSet<i32>>);

impl Sightings {
    /// The orphans of a sweep that have ended, or that no running script can own. At its first sweep an orphan is left alone.
    fn select(&mut self, orphans: &[ChildState], scripts: &HashSet<i32>) -> Vec<ChildState> {
        self.0.retain(|pid, _| orphans.iter().any(|orphan| orphan.pid == *pid));
        let mut selected = Vec::new();
        for &orphan in orphans {
            let has_no_owner = self.0.get_mut(&orphan.pid).is_some_and(|owners| {
                owners.retain(|owner| scripts.contains(owner));
                owners.is_empty()
            });
            if orphan.has_ended || has_no_owner {
                selected.push(orphan);
            }
            self.0.entry(orphan.pid).or_insert_with(|| scripts.clone());
        }
        selected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(pid: i32, group: i32) -> ChildState {
        ChildState { pid, group, has_ended: false }
    }

    fn ended(pid: i32, group: i32) -> ChildState {
        ChildState { has_ended: true, ..child(pid, group) }
    }

    fn scripts<const N: usize>(groups: [i32; N]) -> HashSet<i32> {
        HashSet::from(groups)
    }

    #[test]
    fn an_orphan_is_in_no_group_of_a_script_nor_in_the_gateways() {
        let running = scripts([50]);
        for (child, expected) in [
            (child(60, 60), true),
            (child(61, 50), false),
            (child(62, 1), false),
            (child(50, 50), false),
            (ended(50, 50), false),
            (ended(63, 50), true),
            (ended(64, 1), false),
        ] {
            assert_eq!(is_orphan(&child, 1, &running), expected, "{child:?}");
        }
    }

    #[test]
    fn an_orphan_is_killed_when_every_script_has_ended_that_ran_when_it_was_first_seen() {
        let mut sightings = Sightings::default();
        let orphans = [child(60, 60)];
        assert!(sightings.select(&orphans, &scripts([50, 51])).is_empty());
        assert!(sightings.select(&orphans, &scripts([51, 52])).is_empty());
        // A script that came later cannot be its owner.
        assert_eq!(sightings.select(&orphans, &scripts([52])), orphans);
        // It is reported until it is gone.
        assert_eq!(sightings.select(&orphans, &scripts([52])), orphans);
    }

    #[test]
    fn an_orphan_without_any_script_is_left_alone_for_one_sweep() {
        let mut sightings = Sightings::default();
        let orphans = [child(60, 60)];
        assert!(sightings.select(&orphans, &scripts([])).is_empty());
        assert_eq!(sightings.select(&orphans, &scripts([])), orphans);
        // The same number later is another process.
        assert!(sightings.select(&[], &scripts([])).is_empty());
        assert!(sightings.select(&orphans, &scripts([])).is_empty());
    }

    #[test]
    fn an_orphan_that_has_ended_is_waited_for_at_once() {
        let orphans = [ended(60, 60), child(61, 61)];
        assert_eq!(Sightings::default().select(&orphans, &scripts([50])), [ended(60, 60)]);
    }
}
