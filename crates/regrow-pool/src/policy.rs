//! Policies: what to do about what has happened.
//!
//! | name | on exit | in between | from |
//! |---|---|---|---|
//! | `none` | drop | nothing | |
//! | `recycle` | keep every body | nothing | Taniguchi et al. 2000 |
//! | `recycle-one` | keep one body of each program that runs often, break up all others | who runs often | Tabata and Taniguchi, ch. 5 |
//! | `pool` | as `recycle-one` | every T1 and T2 give back, below H1 and H2 add | Taniguchi et al. 2020, 3.2 |
//! | `adaptive` | what saves the most for its bytes | all of that, learned | ours |

mod adaptive;
mod choice;
mod contract;
mod frequency;
mod learned;
mod none;
mod paper_pool;
mod recycle;
mod recycle_one;
mod stocked;
mod turn;
mod why;

pub use adaptive::Adaptive;
pub use adaptive::settings::AdaptiveSettings;
pub use choice::{PolicyChoice, UnknownPolicy};
pub use contract::Policy;
pub use frequency::Frequency;
pub use learned::Learned;
pub use none::Never;
pub use paper_pool::{PaperPool, PoolSettings};
pub use recycle::Recycle;
pub use recycle_one::RecycleOne;
pub use turn::Turn;
pub(crate) use turn::missing_regions;
pub use why::Why;
