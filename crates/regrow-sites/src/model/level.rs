//! The keys under which runs are counted, from general to specific.
//!
//! ```text
//!   everything ─┬─ image ── frame 1 ── frame 2 ── frame 3 ── script ── child ── arguments ── exact      the place, then what came of it
//!               └─ child ── magnitude ── arguments ── image                                             what came of it, then the parent
//! ```
//!
//! A key is its parent's key and one more part. Images are known by their paths and frames by their symbols where a collector tells them, so
//! that a changed binary has the keys of the one before. Builds and offsets come last, in `exact`: there it starts anew.

/// How much of a site the runs have in common that a prediction rests on most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// Nothing: all processes.
    Everything = 0,
    /// The child's program.
    Child = 1,
    /// The child's program, and about how many arguments it has.
    ChildMagnitude = 2,
    /// The child's program and the class of its arguments.
    ChildArguments = 3,
    /// The child's program, the class of its arguments, and the parent's program.
    ChildOfImage = 4,
    /// The parent's program.
    Image = 5,
    /// The innermost frame as well.
    Frame1 = 6,
    /// Two frames.
    Frame2 = 7,
    /// Three frames.
    Frame3 = 8,
    /// The place in the script as well.
    Script = 9,
    /// The whole place, and the child's program.
    ChildHere = 10,
    /// The whole place, the child's program, and the class of its arguments.
    ArgumentsHere = 11,
    /// The same of these very builds.
    Exact = 12,
}

impl Level {
    /// The level with this number.
    pub(super) fn from_number(number: u8) -> Option<Level> {
        use Level::{
            ArgumentsHere, Child, ChildArguments, ChildHere, ChildMagnitude, ChildOfImage, Everything, Exact,
            Frame1, Frame2, Frame3, Image, Script,
        };
        let all = [
            Everything,
            Child,
            ChildMagnitude,
            ChildArguments,
            ChildOfImage,
            Image,
            Frame1,
            Frame2,
            Frame3,
            Script,
            ChildHere,
            ArgumentsHere,
            Exact,
        ];
        all.into_iter().find(|level| *level as u8 == number)
    }

    /// Whether it begins with the child, not with the place.
    pub(super) fn is_of_child(self) -> bool {
        (Level::Child..=Level::ChildOfImage).contains(&self)
    }

    /// Whether it says nothing of the child.
    pub(super) fn is_of_place(self) -> bool {
        (Level::Image..=Level::Script).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_that_of_its_level() {
        let levels: Vec<Level> = (0..=u8::MAX).map_while(Level::from_number).collect();
        assert_eq!(levels.len(), 13);
        assert!(levels.iter().enumerate().all(|(number, level)| *level as usize == number));
        assert_eq!(Level::from_number(13), None);
        assert!(levels.iter().filter(|level| level.is_of_child()).count() == 4);
        assert!(levels.iter().filter(|level| level.is_of_place()).count() == 5);
    }
}
