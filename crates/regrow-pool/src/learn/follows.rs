//! Which program comes after which, or after which place in a program: sh, then perl.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::ids::ProgramId;

/// Programs that are counted after one cue. One more, and the rarest makes room.
const MOST_AFTER_ONE: usize = 16;
/// Cues that are remembered. One more halves all counts, and cues whose counts are zero go.
const MOST_CUES: usize = 4096;
/// Fewer cases than these prove nothing.
const ENOUGH: u32 = 3;
/// With so many the oldest lose half of their weight.
const MOST: u32 = 256;

/// What makes a program expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cue {
    /// A process of this program was created.
    Program(ProgramId),
    /// A process was created from this place.
    Site(u64),
}

impl fmt::Display for Cue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.fmt(f),
            Self::Site(site) => write!(f, "site {site:#x}"),
        }
    }
}

/// A program that is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The program.
    pub program: ProgramId,
    /// What it comes after.
    pub cue: Cue,
    /// In how many of a hundred cases.
    pub percent: u8,
    /// How long after, on the average.
    pub gap: Duration,
}

#[derive(Debug, Clone, Default)]
struct After {
    cases: u32,
    programs: BTreeMap<ProgramId, (u32, Duration)>,
}

/// Counts what follows what.
#[derive(Debug, Clone, Default)]
pub struct Follows {
    after: BTreeMap<Cue, After>,
    last: Option<(Duration, Vec<Cue>)>,
}

impl Follows {
    /// A process of a program was created, from this place where that is known.
    pub fn created(&mut self, at: Duration, program: ProgramId, site: Option<u64>) {
        if let Some((then, cues)) = self.last.take() {
            for cue in cues {
                self.after.entry(cue).or_default().count(program, at.saturating_sub(then));
            }
            self.bound();
        }
        let cues = std::iter::once(Cue::Program(program)).chain(site.map(Cue::Site));
        self.last = Some((at, cues.collect()));
    }

    fn bound(&mut self) {
        if self.after.len() > MOST_CUES {
            self.after.values_mut().for_each(After::halve);
            self.after.retain(|_, after| after.cases > 0);
        }
    }

    /// The programs that come after the last creation in at least so many of a hundred cases.
    #[must_use]
    pub fn next(&self, percent: u8) -> Vec<Next> {
        let mut found: Vec<Next> = Vec::new();
        let cues = self.last.iter().flat_map(|(_, cues)| cues.iter());
        for (cue, after) in cues.filter_map(|cue| Some((*cue, self.after.get(cue)?))) {
            if after.cases < ENOUGH {
                continue;
            }
            for (&program, &(count, gap)) in &after.programs {
                let share = u8::try_from(count * 100 / after.cases).unwrap_or(100);
                if share >= percent && !found.iter().any(|next| next.program == program) {
                    found.push(Next { program, cue, percent: share, gap });
                }
            }
        }
        found
    }
}

impl After {
    fn count(&mut self, program: ProgramId, gap: Duration) {
        self.cases += 1;
        if self.programs.len() >= MOST_AFTER_ONE && !self.programs.contains_key(&program) {
            let rarest = self.programs.iter().min_by_key(|(id, (count, _))| (*count, **id));
            let Some(rarest) = rarest.map(|(&id, _)| id) else { return };
            self.programs.remove(&rarest);
        }
        let (count, mean) = self.programs.entry(program).or_insert((0, gap));
        *count += 1;
        *mean = *mean - *mean / 8 + gap / 8;
        if self.cases >= MOST {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.cases /= 2;
        self.programs.values_mut().for_each(|(count, _)| *count /= 2);
        self.programs.retain(|_, (count, _)| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SH: ProgramId = ProgramId::new(1);
    const PERL: ProgramId = ProgramId::new(2);
    const CAT: ProgramId = ProgramId::new(3);

    fn names(follows: &Follows, percent: u8) -> Vec<(ProgramId, u8)> {
        follows.next(percent).into_iter().map(|next| (next.program, next.percent)).collect()
    }

    #[test]
    fn perl_comes_after_sh() {
        let mut follows = Follows::default();
        for round in 0..4_u64 {
            follows.created(Duration::from_millis(round * 10), SH, None);
            let then = if round == 0 { CAT } else { PERL };
            follows.created(Duration::from_millis(round * 10 + 2), then, None);
        }
        follows.created(Duration::from_millis(40), SH, None);
        assert_eq!(names(&follows, 50), [(PERL, 75)]);
        assert_eq!(names(&follows, 20), [(PERL, 75), (CAT, 25)]);
        let gap = follows.next(50)[0].gap;
        assert!(gap > Duration::from_micros(1900) && gap <= Duration::from_millis(2), "{gap:?}");
    }

    #[test]
    fn a_site_tells_more_than_its_program() {
        let mut follows = Follows::default();
        for round in 0..8_u64 {
            let (site, then) = if round % 2 == 0 { (7, PERL) } else { (9, CAT) };
            follows.created(Duration::from_millis(round), SH, Some(site));
            follows.created(Duration::from_millis(round), then, None);
        }
        follows.created(Duration::from_millis(20), SH, Some(9));
        assert_eq!(names(&follows, 90), [(CAT, 100)]);
    }

    #[test]
    fn the_rarest_makes_room() {
        let mut follows = Follows::default();
        for other in 0..100 {
            follows.created(Duration::ZERO, SH, None);
            follows.created(Duration::ZERO, ProgramId::new(10 + other), None);
            follows.created(Duration::ZERO, SH, None);
            follows.created(Duration::ZERO, PERL, None);
        }
        follows.created(Duration::ZERO, SH, None);
        assert_eq!(names(&follows, 45), [(PERL, 50)]);
        assert_eq!(follows.after[&Cue::Program(SH)].programs.len(), MOST_AFTER_ONE);
    }
}
