//! Policies by their names, with their settings.

use super::adaptive::Adaptive;
use super::adaptive::settings::AdaptiveSettings;
use super::contract::Policy;
use super::frequency::Frequency;
use super::none::Never;
use super::paper_pool::{PaperPool, PoolSettings};
use super::recycle::Recycle;
use super::recycle_one::RecycleOne;
use super::stocked::Stocked;

/// A policy by its name, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PolicyChoice {
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

impl PolicyChoice {
    /// The names of all policies.
    pub const NAMES: [&'static str; 5] = ["none", "recycle", "recycle-one", "pool", "adaptive"];

    /// The policy itself. Whatever keeps something keeps unused bodies of programs whose processes use theirs up, too.
    #[must_use]
    pub fn build(self) -> Box<dyn Policy> {
        let policy: Box<dyn Policy> = match self {
            Self::None => return Box::new(Never),
            Self::Recycle(frequency) => Box::new(Recycle::new(frequency)),
            Self::RecycleOne(frequency) => Box::new(RecycleOne::new(frequency)),
            Self::Pool(settings) => Box::new(PaperPool::new(settings)),
            Self::Adaptive => Box::new(Adaptive::new(AdaptiveSettings::default())),
            Self::AdaptiveWith(settings) => Box::new(Adaptive::new(settings)),
        };
        Box::new(Stocked::new(policy))
    }
}

impl std::str::FromStr for PolicyChoice {
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
