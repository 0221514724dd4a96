//! Typed ids: the numbers by which tables, policies and the log of creations speak of resources.
//!
//! ```text
//!   BodyId { generation: 2, number: 7 }
//!             │              └ the seventh of its table; a table gives no number twice
//!             └ how often the tables were begun anew before: an id from before then finds nothing
//! ```
//!
//! A table holds ids of what stands in other tables, never a pointer. An id outlives its resource without harm: looking it
//! up finds nothing. Ids are ordered by age.

use std::fmt;
use std::hash::Hash;

/// An id of one kind of resource.
pub trait ResourceId: Copy + Ord + Hash + fmt::Debug + fmt::Display {
    /// The id of the resource with this number in the tables of this generation.
    fn of_generation(generation: u32, number: u64) -> Self;

    /// How often the tables were begun anew before this resource was added.
    fn generation(self) -> u32;

    /// The number within its table: what a person sees.
    fn number(self) -> u64;
}

/// Defines the id of a kind of resource.
#[macro_export]
macro_rules! resource_id {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name {
            generation: u32,
            number: u64,
        }

        impl $name {
            /// The id with this number in tables that were never begun anew.
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self { generation: 0, number }
            }
        }

        impl $crate::ids::ResourceId for $name {
            fn of_generation(generation: u32, number: u64) -> Self {
                Self { generation, number }
            }

            fn generation(self) -> u32 {
                self.generation
            }

            fn number(self) -> u64 {
                self.number
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, concat!($word, " {}"), self.number)
            }
        }
    };
}

resource_id! {
    /// A program: one for each image key and recycling domain. The caller numbers programs.
    ProgramId, "program"
}
resource_id! {
    /// A process. The caller numbers processes.
    ProcessId, "process"
}
resource_id! {
    /// A body. The inventory numbers bodies.
    BodyId, "body"
}
resource_id! {
    /// A shell. The inventory numbers shells.
    ShellId, "shell"
}
resource_id! {
    /// A region outside of bodies. The inventory numbers regions.
    RegionId, "region"
}

/// Gives the ids of a table: rising numbers from 1, of one generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbering {
    generation: u32,
    last: u64,
}

impl Numbering {
    /// Begins with number 1.
    #[must_use]
    pub const fn of_generation(generation: u32) -> Self {
        Self { generation, last: 0 }
    }

    /// The generation of the ids that it gives.
    #[must_use]
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// An id that nothing had before.
    pub fn next_id<I: ResourceId>(&mut self) -> I {
        self.last += 1;
        I::of_generation(self.generation, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_age_and_shown_by_number() {
        let mut first = Numbering::default();
        let (a, b): (BodyId, BodyId) = (first.next_id(), first.next_id());
        let c: BodyId = Numbering::of_generation(1).next_id();
        assert!(a < b && b < c);
        assert_eq!((a.number(), b.number(), c.number()), (1, 2, 1));
        assert_eq!((a, a.to_string().as_str()), (BodyId::new(1), "body 1"));
    }

    #[test]
    fn an_id_of_an_earlier_generation_is_another_one() {
        let before: ShellId = Numbering::default().next_id();
        let after: ShellId = Numbering::of_generation(1).next_id();
        assert_eq!(before.number(), after.number());
        assert_ne!(before, after);
    }
}
