//! The keys under which runs are counted, from general to specific.
//!
//! ```text
//!   everything ─┬─ image ── frame 1 ── frame 2 ── frame 3 ── script ── build ── child ── arguments ── its build     the place, then the child
//!               └─ child ── magnitude ── arguments ── image                                                         the child, then the parent
//! ```
//!
//! A key is its parent's key and one more part. Images are known by their paths and frames by their symbols where a collector tells them, so
//! that a changed binary has the keys of the one before. Builds and offsets come behind the names, as parts of their own: there it starts anew.

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
    /// The whole place in this very build of the parent.
    Build = 10,
    /// The whole place, and the child's program.
    ChildHere = 11,
    /// The whole place, the child's program, and the class of its arguments.
    ArgumentsHere = 12,
    /// The same of this very build of the child.
    ChildBuild = 13,
}

impl Level {
    /// The level with this number.
    pub(super) fn from_number(number: u8) -> Option<Level> {
        use Level::{
            ArgumentsHere, Build, Child, ChildArguments, ChildBuild, ChildHere, ChildMagnitude, ChildOfImage,
            Everything, Frame1, Frame2, Frame3, Image, Script,
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
            Build,
            ChildHere,
            ArgumentsHere,
            ChildBuild,
        ];
        all.into_iter().find(|level| *level as u8 == number)
    }

    /// Whether a key of this level may be more special by one part than a key of the other.
    pub(super) fn may_follow(self, general: Level) -> bool {
        general < self && (general == Level::Everything || general.is_of_child() == self.is_of_child())
    }

    /// Whether it begins with the child, not with the place.
    pub(super) fn is_of_child(self) -> bool {
        (Level::Child..=Level::ChildOfImage).contains(&self)
    }

    /// Whether it says nothing of the child.
    pub(super) fn is_of_place(self) -> bool {
        (Level::Image..=Level::Build).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_that_of_its_level() {
        let levels: Vec<Level> = (0..=u8::MAX).map_while(Level::from_number).collect();
        assert_eq!(levels.len(), 14);
        assert!(levels.iter().enumerate().all(|(number, level)| *level as usize == number));
        assert_eq!(Level::from_number(14), None);
        assert!(Level::Image.may_follow(Level::Everything) && Level::Child.may_follow(Level::Everything));
        assert!(Level::ChildBuild.may_follow(Level::Image) && !Level::Image.may_follow(Level::Child));
        assert!(!Level::Image.may_follow(Level::Image) && !Level::Everything.may_follow(Level::Everything));
        assert!(levels.iter().filter(|level| level.is_of_child()).count() == 4);
        assert!(levels.iter().filter(|level| level.is_of_place()).count() == 6);
    }
}
