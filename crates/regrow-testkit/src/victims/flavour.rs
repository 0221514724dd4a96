//! The flavours in which every victim runs, and the pairs of flavour and victim that cannot hold.

use std::fmt;

use regrow::{Feature, FeatureSet, Point, PointChoice, Pool};

use super::error::VictimsError;
use super::manifest::Case;
use crate::summary::Extent;

/// The kernel features that the engine and the agent can do without and look at: each is taken away in turn.
const WITHOUT: [Feature; 8] = [
    Feature::PagemapScan,
    Feature::ProcmapQuery,
    Feature::Inotify,
    Feature::HwBreakpoints,
    Feature::PtraceRseq,
    Feature::MembarrierQuery,
    Feature::Pkeys,
    Feature::ExtendedState,
];

/// Victims that test what a feature makes visible: they cannot pass without the feature.
const CANNOT_HOLD: [(Feature, &str); 1] = [(Feature::MembarrierQuery, "membarriers")];

/// How the pool of a flavour is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Recycling off: proves the victims and this harness.
    Off,
    /// Images at one point only, in production settings: nothing compares a body but its next run.
    At(Point),
    /// The same in verify mode: every body is compared with its image after every run.
    Verified(Point),
    /// The pool chooses the point; only for victims that cannot hold at every point.
    Auto,
    /// The pool chooses the point, and may not use a feature; in verify mode.
    Without(Feature),
}

impl Flavour {
    /// All of them, in the order in which they run.
    pub fn all() -> Vec<Flavour> {
        let fixed = [
            Flavour::Off,
            Flavour::At(Point::Main),
            Flavour::At(Point::Entry),
            Flavour::Verified(Point::Main),
            Flavour::Verified(Point::Entry),
            Flavour::Auto,
        ];
        fixed.into_iter().chain(WITHOUT.map(Flavour::Without)).collect()
    }

    /// The flavour of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn parse(name: &str) -> Result<Flavour, VictimsError> {
        let mut all = Flavour::all().into_iter();
        all.find(|flavour| flavour.to_string() == name)
            .ok_or_else(|| VictimsError::UnknownFlavour(name.to_owned()))
    }

    /// A pool that is like this.
    pub fn pool(self) -> Pool {
        let builder = Pool::builder().verify(self.verifies());
        match self {
            Flavour::Off => builder.recycle(false),
            Flavour::At(point) | Flavour::Verified(point) => builder.point(PointChoice::Only(point)),
            Flavour::Auto => builder,
            Flavour::Without(feature) => builder.disable(FeatureSet::from_iter([feature])),
        }
        .build()
    }

    /// Whether the case runs in this flavour. `Err` says why not.
    pub fn takes(self, case: &Case) -> Result<(), &'static str> {
        let is = |names: &[&str]| names.iter().any(|name| case.name.split('.').next() == Some(name));
        let not_at = |point: Point| case.not_at.iter().any(|name| name == point.name());
        match self {
            Flavour::Off => Ok(()),
            Flavour::At(point) | Flavour::Verified(point) if not_at(point) => {
                Err("it cannot hold at this point")
            }
            Flavour::At(_) if case.verified_only => Err("only a comparison sees what it leaves"),
            Flavour::At(_) | Flavour::Verified(_) => Ok(()),
            Flavour::Auto if case.not_at.is_empty() => Err("it holds at every point"),
            Flavour::Without(feature)
                if CANNOT_HOLD.iter().any(|pair| pair.0 == feature && is(&[pair.1])) =>
            {
                Err("it is about what cannot be seen without the feature")
            }
            Flavour::Auto | Flavour::Without(_) => Ok(()),
        }
    }

    /// How many runs a case has; none where the flavour is left out. A repetition by another user proves that no
    /// privilege was needed: the first runs of a body show that, and which features a kernel has is the same for both.
    pub fn runs(self, extent: Extent) -> usize {
        match (self, extent) {
            (Flavour::At(_) | Flavour::Auto, Extent::Long) => 50,
            (Flavour::At(_) | Flavour::Auto, Extent::Usual) => 25,
            (Flavour::At(_) | Flavour::Auto, Extent::Again) => 8,
            (Flavour::Verified(_), Extent::Long) => 20,
            (Flavour::Verified(_), Extent::Usual) => 8,
            (Flavour::Verified(_), Extent::Again) => 3,
            (Flavour::Off, Extent::Long) => 10,
            (Flavour::Off, Extent::Usual) => 4,
            (Flavour::Off, Extent::Again) => 2,
            (Flavour::Without(_), Extent::Long) => 4,
            (Flavour::Without(_), Extent::Usual) => 3,
            (Flavour::Without(_), Extent::Again) => 0,
        }
    }

    /// Whether it takes one build of each victim and not all: a long run tries each feature with each build.
    pub fn takes_one_build(self, extent: Extent) -> bool {
        matches!(self, Flavour::Without(_)) && extent != Extent::Long
    }

    /// Whether every body is compared with its image after every run.
    fn verifies(self) -> bool {
        matches!(self, Flavour::Verified(_) | Flavour::Auto | Flavour::Without(_))
    }

    /// Whether its runs must be in kept address spaces.
    pub fn recycles(self) -> bool {
        self != Flavour::Off
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flavour::Off => f.write_str("off"),
            Flavour::At(point) => write!(f, "{point}"),
            Flavour::Verified(point) => write!(f, "{point}-verified"),
            Flavour::Auto => f.write_str("auto"),
            Flavour::Without(feature) => write!(f, "without-{feature}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flavour_is_found_by_its_name() {
        for flavour in Flavour::all() {
            assert_eq!(Flavour::parse(&flavour.to_string()).expect("it has a name"), flavour);
        }
        assert!(Flavour::parse("sideways").is_err());
    }

    #[test]
    fn all_flavours_run_but_for_missing_features_again() {
        for flavour in Flavour::all() {
            let is_left_out = matches!(flavour, Flavour::Without(_));
            let runs = [Extent::Long, Extent::Usual, Extent::Again].map(|extent| flavour.runs(extent));
            assert!(runs[0] > runs[1] && runs[1] > runs[2] && runs[1] > 1, "{flavour}: {runs:?}");
            assert_eq!(runs[2] == 0, is_left_out, "{flavour}");
        }
    }

    #[test]
    fn only_features_that_can_be_missed_are_taken_away() {
        for feature in WITHOUT {
            assert_eq!(feature.need(), regrow_sys::probe::Need::Optional, "{feature}");
        }
    }
}
