//! `adaptive`: what saves the most start-up time for the bytes it holds, within a budget. The default.
//!
//! Nothing is set but the budget. For each program the policy learns how long until the next process of it, and until
//! there are two, three … at a time ([`Demand`]); and what comes after what ([`Follows`]). From that follows how many
//! bodies of a program are *wanted* at any moment:
//!
//! ```text
//!            places of the program whose window is open     ┐ the larger      ┌ fewer: keep what is left, else add
//!  wanted =                                                 ├───────────── ≷ supply
//!            one more than run, while it is expected next   ┘                 └ more: break up or drop
//!
//!  supply = processes that run + bodies that are ready, being put back or being made
//! ```
//!
//! These are the papers' thresholds, learned: a window's end is T2 of its program and place, the shells' is T1; the shells
//! that are wanted at a time are H1, the regions H2.
//!
//! Where the budget does not reach, that is kept which saves the most start-up time for each byte and hour, by how often
//! its place is needed. Of what has to go, the pages go first, then the body.

mod room;
mod shells;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::{Policy, Turn, Why};
use crate::event::{Action, BodyId, Event, Kept, ProgramId, Source};
use crate::learn::{Basis, Cue, Demand, FORGOTTEN_AFTER, Follows, Frame, Gaps, Window};
use crate::state::{Body, Illegal, State, Status};

use room::Worth;
use shells::Shells;

/// From so many processes on that were not the first of their program it is known after how long programs come back.
const RETURNS: u64 = 64;

/// How the policy works. None of it needs to be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// Start-up time that a shell saves; zero: shells are not kept.
    pub shell_saves: Duration,
    /// Start-up time that a region in the pool saves, in nanoseconds for each KiB; zero: they are not kept.
    pub region_saves_ns_per_kib: u64,
    /// Start-up time that a page saves which is mapped in a body, in nanoseconds for each KiB.
    pub fault_ns_per_kib: u64,
    /// A program is expected after another when it came next in at least so many of a hundred cases.
    pub follows_percent: u8,
    /// What is not needed for this long is given back in between.
    pub rest: Duration,
    /// A body is kept unused this long at least: making it again costs something too.
    pub least: Duration,
    /// The same while memory is not short and it is not known yet after how long programs come back. From then on it is
    /// a quarter more than the longest time after which one has, this at most.
    pub ample_least: Duration,
    /// From so many percent of the budget on memory counts as short, and what is hardly needed again is given back.
    pub tight_percent: u8,
    /// How long nothing is kept or added after memory was short.
    pub pause: Duration,
    /// How many bodies can be put back at a time beside the caller: the processors that it leaves.
    pub resets_beside: usize,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            shell_saves: Duration::from_micros(50),
            region_saves_ns_per_kib: 0,
            fault_ns_per_kib: 300,
            follows_percent: 40,
            rest: Duration::from_secs(60),
            least: Duration::from_secs(10),
            ample_least: Duration::from_secs(600),
            tight_percent: 50,
            pause: Duration::from_secs(2),
            resets_beside: 1,
        }
    }
}

/// What the policy has learned, in the papers' terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Learned {
    /// How long a shell or a region is kept that nobody takes.
    pub t1: Option<Duration>,
    /// For each program how long its first body is kept unused, what says so, and how many bodies are wanted.
    pub t2: Vec<(ProgramId, Duration, Basis, usize)>,
    /// How many shells are wanted.
    pub h1: usize,
    /// How many regions are wanted.
    pub h2: usize,
}

/// A program that is expected next.
#[derive(Debug, Clone, Copy)]
struct Expected {
    until: Duration,
    cue: Cue,
    percent: u8,
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Adaptive {
    settings: AdaptiveSettings,
    demands: BTreeMap<ProgramId, Demand>,
    all: Gaps,
    all_window: Option<Window>,
    /// How many processes were not the first of their program, and the longest time since the one before.
    returns: u64,
    longest_return: Duration,
    follows: Follows,
    expected: BTreeMap<ProgramId, Expected>,
    shells: Shells,
    /// When the wanted bodies of a program next change without an arrival.
    due: BTreeMap<ProgramId, Duration>,
    dues: BTreeSet<(Duration, ProgramId)>,
    paused_until: Duration,
    /// How many processes were created.
    seen: u64,
    /// When a program needed a body more than ever, by that number.
    first_needs: VecDeque<(u64, ProgramId)>,
}

impl Adaptive {
    /// A policy that has seen nothing yet.
    #[must_use]
    pub fn new(settings: AdaptiveSettings) -> Adaptive {
        Adaptive {
            settings,
            demands: BTreeMap::new(),
            all: Gaps::default(),
            all_window: None,
            returns: 0,
            longest_return: Duration::ZERO,
            follows: Follows::default(),
            expected: BTreeMap::new(),
            shells: Shells::default(),
            due: BTreeMap::new(),
            dues: BTreeSet::new(),
            paused_until: Duration::ZERO,
            seen: 0,
            first_needs: VecDeque::new(),
        }
    }

    fn is_paused(&self, at: Duration) -> bool {
        at < self.paused_until
    }

    fn frame(&self, state: &State) -> Frame {
        let tight = state.budget_bytes() / 100 * u64::from(self.settings.tight_percent);
        Frame {
            all: self.all_window,
            rest: self.settings.rest,
            least: self.settings.least,
            ample_least: self.ample_least(state.at()),
            tight: state.kept_bytes() >= tight,
            seen: self.seen,
        }
    }

    /// How long a body is kept unused at least while memory is not short: no program has come back after longer, and
    /// what was seen for a time says nothing about longer ones.
    fn ample_least(&self, at: Duration) -> Duration {
        let known = self.returns >= RETURNS;
        let longer = (self.longest_return + self.longest_return / 4).max(self.settings.least).max(at);
        if known { longer.min(self.settings.ample_least) } else { self.settings.ample_least }
    }

    /// How many bodies of a program are worth having, those included that its processes run in.
    fn wanted(&self, state: &State, program: ProgramId) -> usize {
        let at = state.at();
        if self.is_paused(at) {
            return 0;
        }
        let demand = self.demands.get(&program);
        let open = demand.map_or(0, |demand| demand.wanted(at, &self.frame(state)));
        let expected = self.expected.get(&program).is_some_and(|expected| at < expected.until);
        if expected { open.max(state.alive(program) + 1) } else { open }
    }

    fn created(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Event::Created { program, site, waited, from, .. } = event else { return Ok(()) };
        let (at, program) = (turn.state().at(), *program);
        let resetting = turn.state().bodies_of(program).filter(|(_, body)| body.status == Status::Resetting);
        // More bodies than are put back at a time only wait for each other.
        let in_turn = (resetting.count() + usize::from(!waited.is_zero())).min(self.settings.resets_beside);
        let running = turn.state().alive(program).saturating_sub(1);
        self.seen += 1;
        let demand = self.demands.entry(program).or_default();
        let places = demand.places();
        if let Some(gap) = demand.arrive((at, self.seen), running, in_turn, &mut self.all) {
            self.returns += 1;
            self.longest_return = self.longest_return.max(gap);
        }
        if demand.places() > places {
            self.first_needs.push_back((self.seen, program));
        }
        if self.returns > 0 && (self.all.count() < 32 || self.all.count().is_multiple_of(8)) {
            self.all_window = self.all.window();
        }
        if matches!(from, Source::Made { image: false, .. }) {
            self.shells.arrive(turn.state(), self.seen, program);
        }
        self.expected.remove(&program);
        self.follows.created(at, program, *site);
        let (next, rest) = (self.follows.next(self.settings.follows_percent), self.settings.rest);
        // One that comes after itself comes when the one before has ended, unless it does not wait for that.
        let overlaps = turn.state().alive(program) > 1;
        for next in next.into_iter().filter(|next| next.gap < rest && (next.program != program || overlaps)) {
            // What usually comes within a time has not come when four times that has passed.
            let until = at + (next.gap * 4).max(Duration::from_millis(1));
            self.expected.insert(next.program, Expected { until, cue: next.cue, percent: next.percent });
            self.balance(next.program, turn)?;
        }
        while let Some(&(first, program)) = self.first_needs.front()
            && first + FORGOTTEN_AFTER <= self.seen
        {
            self.first_needs.pop_front();
            self.balance(program, turn)?;
        }
        self.balance(program, turn)
    }

    /// Notes when a program is to be looked at again.
    fn plan(&mut self, program: ProgramId, state: &State) {
        let at = state.at();
        let demand = self.demands.get(&program);
        let change = demand.and_then(|demand| demand.next_change(at, &self.frame(state)));
        let expected = self.expected.get(&program).map(|expected| expected.until).filter(|&until| until > at);
        let surplus = longest_unused(state, program).map(|(_, body)| body.used + self.settings.least);
        let surplus = surplus.filter(|_| supply(state, program) > self.wanted(state, program));
        let next = change.into_iter().chain(expected).chain(surplus).filter(|&next| next > at).min();
        if let Some(before) = self.due.remove(&program) {
            self.dues.remove(&(before, program));
        }
        if let Some(next) = next {
            self.due.insert(program, next);
            self.dues.insert((next, program));
        }
    }

    /// A body was left: it is kept if it is wanted, or else its parts are, or nothing.
    fn left(&mut self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let Some(body) = turn.state().body(id) else { return Ok(()) };
        let (program, bytes) = (body.program, body.bytes());
        let wanted = self.wanted(turn.state(), program);
        if supply(turn.state(), program) >= wanted {
            // One that is there is better than one that is being made.
            let mut bodies = turn.state().bodies_of(program);
            if let Some((id, _)) = bodies.find(|(_, body)| body.status == Status::Adding) {
                drop(bodies);
                turn.act(Action::Drop(Kept::Body(id)))?;
            }
        }
        if supply(turn.state(), program) < wanted {
            let pages = body_pages(turn.state(), id);
            if self.make_room_for(program, bytes, pages, turn)? {
                // The room may have been made by what held the image.
                return turn.keep_or_drop(id);
            }
            if pages > 0 && self.make_room_for(program, bytes - pages, 0, turn)? {
                turn.act(Action::Trim(id))?;
                return turn.keep_or_drop(id);
            }
        }
        self.give_back(id, turn)
    }

    /// Breaks a body up if its shell is wanted, else drops it.
    fn give_back(&mut self, id: BodyId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let adding = turn.state().body(id).is_none_or(|body| body.status == Status::Adding);
        let shells = self.wanted_shells(turn.state());
        if adding || turn.state().shells().len() >= shells {
            return turn.act(Action::Drop(Kept::Body(id))).map(drop);
        }
        turn.break_up_or_drop(id)?;
        self.drop_unwanted_regions(turn)
    }

    /// Brings the supply of a program to what is wanted, and notes when that changes.
    fn balance(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let wanted = self.wanted(turn.state(), program);
        let forgotten = self.demands.get(&program).is_some_and(|demand| demand.has_forgotten(self.seen));
        loop {
            let before = supply(turn.state(), program);
            if before < wanted {
                // Room that another body of the program made for it is no gain.
                if !self.add(program, turn)? || supply(turn.state(), program) <= before {
                    break;
                }
            } else if before > wanted
                && let Some((id, body)) = longest_unused(turn.state(), program)
                && (forgotten || body.used + self.settings.least <= turn.state().at())
            {
                self.give_back(id, turn)?;
            } else {
                break;
            }
        }
        self.plan(program, turn.state());
        Ok(())
    }

    /// Adds a body, if it is worth its bytes.
    fn add(&mut self, program: ProgramId, turn: &mut Turn<'_>) -> Result<bool, Illegal> {
        let Some(facts) = turn.state().facts(program) else { return Ok(false) };
        if facts.saves.is_zero() {
            return Ok(false);
        }
        let bytes = facts.body_bytes;
        // While memory is short, nothing that is there goes for what may be needed.
        if self.frame(turn.state()).tight {
            let room = turn.state().room() >= turn.state().bytes_of_next(program, bytes);
            return Ok(room && turn.try_add_body(program)?.is_some());
        }
        Ok(self.make_room_for(program, bytes, 0, turn)? && turn.try_add_body(program)?.is_some())
    }

    /// Looks at the programs whose time has come.
    fn balance_due(&mut self, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        let at = turn.state().at();
        while let Some(&(due, program)) = self.dues.first()
            && due <= at
        {
            if self.expected.get(&program).is_some_and(|expected| expected.until <= at) {
                self.expected.remove(&program);
            }
            self.balance(program, turn)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        match event {
            Event::Created { .. } => self.created(event, turn),
            Event::Exited { .. } => match turn.left() {
                Some(id) => self.left(id, turn),
                None => Ok(()),
            },
            Event::Ready(Kept::Body(id)) => turn.prefault_missing(*id),
            Event::Tick | Event::Lost(_) => self.balance_due(turn),
            Event::Pressure => {
                self.paused_until = turn.state().at() + self.settings.pause;
                self.expected.clear();
                turn.give_everything_back()
            }
            Event::Budget { .. } => self.shrink(turn),
            Event::Known { .. } | Event::Ready(_) => Ok(()),
        }
    }
}

/// How many processes of a program run or can, counting the bodies that are not ready yet.
fn supply(state: &State, program: ProgramId) -> usize {
    state.alive(program) + state.kept_of(program)
}

/// Bytes of the pages in a body.
fn body_pages(state: &State, id: BodyId) -> u64 {
    state.body(id).map_or(0, |body| body.regions.iter().sum())
}

/// The body of a program that was not used for longest.
fn longest_unused(state: &State, program: ProgramId) -> Option<(BodyId, &Body)> {
    let kept = state.bodies_of(program).filter(|(_, body)| body.is_kept());
    kept.min_by_key(|(id, body)| (body.used, *id))
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn turn(&mut self, event: &Event, turn: &mut Turn<'_>) -> Result<(), Illegal> {
        self.event(event, turn)?;
        if matches!(event, Event::Created { .. } | Event::Tick) {
            self.balance_shells(turn)?;
        }
        Ok(())
    }

    fn next_tick(&self, state: &State) -> Option<Duration> {
        let at = state.at();
        if self.is_paused(at) {
            return Some(self.paused_until);
        }
        let bodies = self.dues.first().map(|&(due, _)| due);
        bodies.into_iter().chain(self.next_shell_change(state)).min()
    }

    fn why(&self, state: &State, kept: Kept) -> Why {
        let Kept::Body(id) = kept else { return self.why_shell(state) };
        let Some(body) = state.body(id) else { return Why::Part };
        let program = body.program;
        // The places are filled from the most recently used body on.
        let before = state
            .bodies_of(program)
            .filter(|(other, kept)| kept.is_kept() && (kept.used, *other) > (body.used, id));
        let place = state.alive(program) + before.count();
        let demand = self.demands.get(&program);
        let frame = self.frame(state);
        let window = demand.and_then(|demand| demand.window(place, self.all_window));
        match (window, self.expected.get(&program)) {
            (Some((last, window)), _) if state.at().saturating_sub(last) < frame.keep_alive(window) => {
                Why::Gap {
                    unused: state.at().saturating_sub(last),
                    keep_alive: frame.keep_alive(window),
                    at_a_time: place + 1,
                    saves_us_per_mib_hour: Worth::of_body(self, state, id, place).per_mib_hour(),
                    from: window.basis,
                }
            }
            (_, Some(&Expected { cue, percent, .. })) => Why::Follows { cue, percent },
            _ => Why::Lately { at_a_time: place },
        }
    }

    fn learned(&self, state: &State) -> Option<Learned> {
        let t2 = self.demands.iter().filter_map(|(&program, demand)| {
            let (_, window) = demand.window(0, self.all_window)?;
            let keep_alive = self.frame(state).keep_alive(window);
            Some((program, keep_alive, window.basis, self.wanted(state, program)))
        });
        let h1 = self.wanted_shells(state);
        let h2 = self.wanted_regions(state).values().sum();
        Some(Learned { t1: self.shell_keep_alive(state), t2: t2.collect(), h1, h2 })
    }
}
