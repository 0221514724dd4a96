//! What a log of creations teaches: how long until the next one, how many at a time, what comes next.
//!
//! ```text
//!  gaps     Gaps      a histogram of the time between two needs, its window and how sure that is
//!  demand   Demand    the gaps of the first, the second, the third … body that is needed at a time
//!  follows  Follows   which program comes after which, or after which place in a program
//! ```

mod demand;
mod follows;
mod gaps;

pub use demand::{Demand, FORGOTTEN_AFTER, Frame, MOST_AT_A_TIME};
pub use follows::{Cue, Follows, Next};
pub use gaps::{Basis, Gaps, Window};
