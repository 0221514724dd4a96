//! Policies: what is to be done about what has happened.
//!
//! | name | on exit | in between | from |
//! |---|---|---|---|
//! | `none` | drop | nothing | |
//! | `recycle` | keep every body | nothing | Taniguchi et al. 2000 |
//! | `recycle-one` | keep one body of each program that runs often, break up all others | who runs often | Tabata and Taniguchi, ch. 5 |
//! | `pool` | as `recycle-one` | every T1 and T2 give back, below H1 and H2 add | Taniguchi et al. 2020, 3.2 |
//! | `adaptive` | what saves the most for its bytes | all of that, learned | ours |

mod adaptive;
mod frequency;
mod none;
mod paper_pool;
mod recycle;
mod recycle_one;

use std::fmt;
use std::time::Duration;

use crate::event::{Action, BodyId, Done, Event, Facts, Kept, Place, ProgramId};
use crate::state::{Illegal, State, Status};

pub use adaptive::{Adaptive, AdaptiveSettings, Learned};
pub use frequency::Frequency;
pub use none::Never;
pub use paper_pool::{PaperPool, PoolSettings};
pub use recycle::Recycle;
pub use recycle_one::RecycleOne;

/// Decides. It sees every event after the state has taken it in, and acts through the [`Turn`].
pub trait Policy: fmt::Debug + Send {
    /// The name that it is chosen by.
    fn name(&self) -> &'static str;

    /// Something has happened. A body that a process left ([`Turn::left`]) is to be decided upon before this returns,
    /// and what is kept is to be within the budget.
    ///
    /// # Errors
    /// [`Illegal`]: an action was refused, which is a fault of the policy.
    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal>;

    /// When it wants a [`Event::Tick`], at the latest.
    fn next_tick(&self, state: &State) -> Option<Duration> {
        let _ = state;
        None
    }

    /// Why it keeps something that is kept.
    fn why(&self, state: &State, kept: Kept) -> Why;

    /// What it has learned; `None` for a policy that sets nothing by itself.
    fn learned(&self, state: &State) -> Option<Learned> {
        let _ = state;
        None
    }
}

/// A policy by its name, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Choice {
    /// Keep nothing.
    None,
    /// Keep every body of the programs that run often.
    Recycle(Frequency),
    /// One body of each program that runs often.
    RecycleOne(Frequency),
    /// The papers' pool.
    Pool(PoolSettings),
    /// What saves the most.
    #[default]
    Adaptive,
    /// The same with settings of one's own.
    AdaptiveWith(AdaptiveSettings),
}

/// There is no policy of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{0}`: none, recycle, recycle-one, pool, adaptive")]
pub struct UnknownPolicy(pub String);

impl Choice {
    /// The names that can be chosen.
    pub const NAMES: [&'static str; 5] = ["none", "recycle", "recycle-one", "pool", "adaptive"];

    /// The policy itself.
    #[must_use]
    pub fn build(self) -> Box<dyn Policy> {
        match self {
            Self::None => Box::new(Never),
            Self::Recycle(frequency) => Box::new(Recycle::new(frequency)),
            Self::RecycleOne(frequency) => Box::new(RecycleOne::new(frequency)),
            Self::Pool(settings) => Box::new(PaperPool::new(settings)),
            Self::Adaptive => Box::new(Adaptive::new(AdaptiveSettings::default())),
            Self::AdaptiveWith(settings) => Box::new(Adaptive::new(settings)),
        }
    }
}

impl std::str::FromStr for Choice {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "none" => Ok(Self::None),
            "recycle" => Ok(Self::Recycle(Frequency::ANY)),
            "recycle-one" => Ok(Self::RecycleOne(Frequency::default())),
            "pool" => Ok(Self::Pool(PoolSettings::default())),
            "adaptive" => Ok(Self::Adaptive),
            other => Err(UnknownPolicy(other.to_owned())),
        }
    }
}

/// Why something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The policy keeps every body.
    EveryBody,
    /// It is the one body of a program that runs often.
    RunsOften {
        /// How many of the last creations were of it.
        runs: u32,
        /// Of how many.
        of: u32,
    },
    /// It is what a body was broken up into, and every process can use it.
    Part,
    /// At least so many are kept.
    Minimum {
        /// How many.
        least: usize,
    },
    /// It was named as a program that is going to be started.
    Named,
    /// Its program often comes next.
    Follows {
        /// What it follows.
        cue: crate::learn::Cue,
        /// In how many of a hundred cases.
        percent: u8,
    },
    /// It is not likely to be needed, but was until just now: making it again would cost something too.
    Lately {
        /// How many of its kind have been needed at a time when it was.
        at_a_time: usize,
    },
    /// It is likely to be needed before this long has passed without.
    Gap {
        /// How long it has not been needed.
        unused: Duration,
        /// How long it is kept after it was last needed.
        keep_alive: Duration,
        /// How many of its kind have been needed at a time when it was.
        at_a_time: usize,
        /// Start-up time that it is expected to save, in microseconds for each mebibyte that is held for an hour.
        saves_us_per_mib_hour: u64,
        /// Whose gaps that was learned from.
        from: crate::learn::Basis,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryBody => f.write_str("every body is kept"),
            Self::RunsOften { runs, of } => write!(f, "runs often: {runs} of the last {of} creations"),
            Self::Part => f.write_str("part of a body that was broken up; every program can use it"),
            Self::Minimum { least } => write!(f, "at least {least} are kept ready"),
            Self::Named => f.write_str("named as a program that is going to be started"),
            Self::Follows { cue, percent } => write!(f, "comes after {cue} in {percent} of 100 cases"),
            Self::Lately { at_a_time } => write!(f, "{at_a_time} at a time were needed until just now"),
            Self::Gap { unused, keep_alive, at_a_time, saves_us_per_mib_hour, from } => write!(
                f,
                "{at_a_time} at a time needed {unused:.1?} ago, kept for {keep_alive:.1?} ({from}); saves {:.1?} per MiB \
                 and hour",
                Duration::from_micros(*saves_us_per_mib_hour)
            ),
        }
    }
}

/// One decision: reads the state, and acts on it. Each action is checked when it is asked for.
#[derive(Debug)]
pub struct Turn<'a> {
    state: &'a mut State,
    left: Option<BodyId>,
    done: Vec<Done>,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(state: &'a mut State, left: Option<BodyId>) -> Turn<'a> {
        Turn { state, left, done: Vec::new() }
    }

    pub(crate) fn finish(self) -> Vec<Done> {
        self.done
    }

    /// The state as it is after the actions so far.
    #[must_use]
    pub fn state(&self) -> &State {
        self.state
    }

    /// The body that the process of this event left.
    #[must_use]
    pub fn left(&self) -> Option<BodyId> {
        self.left
    }

    /// Does something.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn act(&mut self, action: Action) -> Result<Vec<Kept>, Illegal> {
        let done = self.state.apply(action)?;
        let made = done.made.clone();
        self.done.push(done);
        Ok(made)
    }

    /// Keeps a body that was left, or drops it where it is over the budget.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn keep_or_drop(&mut self, id: BodyId) -> Result<(), Illegal> {
        match self.act(Action::Keep(id)) {
            Err(Illegal::OverBudget { .. }) => self.act(Action::Drop(Kept::Body(id))).map(drop),
            other => other.map(drop),
        }
    }

    /// Breaks a body up. It is dropped where its parts are over the budget, or where there is a shell for each process
    /// that was ever alive at a time: no more of them can be used.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn break_up_or_drop(&mut self, id: BodyId) -> Result<(), Illegal> {
        if self.state.shells().len() >= self.state.most_shells() {
            return self.act(Action::Drop(Kept::Body(id))).map(drop);
        }
        match self.act(Action::BreakUp(id)) {
            Err(Illegal::OverBudget { .. } | Illegal::NotReady(_)) => {
                self.act(Action::Drop(Kept::Body(id))).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Adds a body of a program, where it is known and within the budget. Gives it.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn try_add_body(&mut self, program: ProgramId) -> Result<Option<BodyId>, Illegal> {
        match self.act(Action::AddBody(program)) {
            Err(Illegal::OverBudget { .. } | Illegal::UnknownProgram(_)) => Ok(None),
            Ok(made) => Ok(made.iter().find_map(|kept| match kept {
                Kept::Body(id) => Some(*id),
                _ => None,
            })),
            Err(other) => Err(other),
        }
    }

    /// Maps the pages that a run of a ready body will touch and that are not in it, as far as the budget goes.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn prefault_missing(&mut self, id: BodyId) -> Result<(), Illegal> {
        for bytes in missing_regions(self.state, id) {
            if bytes <= self.state.room() {
                self.act(Action::Prefault { place: Place::Body(id), bytes })?;
            }
        }
        Ok(())
    }

    /// Drops everything that is in no use.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn give_everything_back(&mut self) -> Result<(), Illegal> {
        let bodies = self.state.bodies().filter(|(_, body)| body.is_kept()).map(|(id, _)| Kept::Body(id));
        let shells = self.state.shells().map(|(id, _)| Kept::Shell(id));
        let regions = self.state.regions().map(|(id, _)| Kept::Region(id));
        let all: Vec<Kept> = bodies.chain(shells).chain(regions).collect();
        all.into_iter().try_for_each(|kept| self.act(Action::Drop(kept)).map(drop))
    }

    /// Drops until the budget is kept to: regions, largest first, then shells, then bodies, unused for longest first.
    ///
    /// # Errors
    /// [`Illegal`].
    pub fn come_within_budget(&mut self) -> Result<(), Illegal> {
        if self.state.kept_bytes() <= self.state.budget_bytes() {
            return Ok(());
        }
        let mut regions: Vec<_> =
            self.state.regions().map(|(id, region)| (region.bytes, Kept::Region(id))).collect();
        regions.sort_unstable_by_key(|&(bytes, kept)| (std::cmp::Reverse(bytes), kept));
        let shells = self.state.shells().map(|(id, _)| Kept::Shell(id));
        let kept = self.state.bodies().filter(|(_, body)| body.is_kept());
        let mut bodies: Vec<_> = kept.map(|(id, body)| (body.used, Kept::Body(id))).collect();
        bodies.sort_unstable();
        let order: Vec<Kept> = regions
            .into_iter()
            .map(|pair| pair.1)
            .chain(shells)
            .chain(bodies.into_iter().map(|pair| pair.1))
            .collect();
        for kept in order {
            if self.state.kept_bytes() <= self.state.budget_bytes() {
                break;
            }
            self.act(Action::Drop(kept))?;
        }
        Ok(())
    }
}

/// The regions that a run of a program dirties and that a ready body of it does not have, by their sizes.
pub(crate) fn missing_regions(state: &State, id: BodyId) -> Vec<u64> {
    let Some(body) = state.body(id).filter(|body| body.status == Status::Idle) else { return Vec::new() };
    let wanted = state.facts(body.program).map_or(&[][..], |facts: &Facts| &facts.regions);
    let mut has = body.regions.clone();
    let mut missing = Vec::new();
    for &bytes in wanted {
        match has.iter().position(|&there| there == bytes) {
            Some(found) => drop(has.swap_remove(found)),
            None => missing.push(bytes),
        }
    }
    missing
}
