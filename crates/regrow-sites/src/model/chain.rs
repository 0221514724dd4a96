//! From a site to its chain of keys.

use super::level::Level;
use super::names::{Names, frame_hash, image_hash};
use crate::Arguments;
use crate::hash;
use crate::site::{ImageId, MOST_FRAMES, Site};

/// Most parts of a place and what came of it.
const MOST_PARTS: usize = 9;
/// Most parts of a child and its parent.
const MOST_CHILD_PARTS: usize = 4;

/// Stands for the program of a child that executed none.
const FORKED: u32 = 1;

/// A place in a parent, as hashes; 0 stands for what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) image: u32,
    pub(super) frames: [u32; MOST_FRAMES],
    pub(super) script: u32,
}

/// What a child executed, as hashes; 0 stands for what is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Call {
    pub(super) image: u32,
    pub(super) class: u32,
    /// One more than the magnitude of its arguments.
    pub(super) magnitude: u8,
}

/// One part of a key, with the level of the key that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) level: Level,
    /// By name where that is known.
    pub(super) named: u32,
    /// By the build alone.
    pub(super) raw: u32,
}

/// What a key has seen alone as long as it has seen nothing else: in builds and offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Identity {
    pub(super) place: u16,
    pub(super) child: u16,
    pub(super) class: u16,
}

/// How well the only site of a key fits one that is asked for, of which less may be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fit {
    /// It is another place, or another child.
    #[default]
    Other,
    /// The place and the child are the same, and the class of the arguments is another one.
    SameChild,
    /// It is that very site, as far as is known.
    Own,
}

impl Identity {
    /// How well it fits a site that is asked for.
    pub(super) fn fit(&self, asked: &Identity, call: &Call) -> Fit {
        let is_same_child = self.place == asked.place && (!call.is_known() || self.child == asked.child);
        match is_same_child {
            false => Fit::Other,
            true if call.class == 0 || self.class == asked.class => Fit::Own,
            true => Fit::SameChild,
        }
    }
}

/// Parts of one kind of chain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<const N: usize> {
    all: [Part; N],
    length: usize,
}

impl<const N: usize> Parts<N> {
    fn new() -> Self {
        Self { all: [Part { level: Level::Everything, named: 0, raw: 0 }; N], length: 0 }
    }

    /// Adds a part; what is not known is left out.
    fn push(&mut self, level: Level, named: u32, raw: u32) {
        if raw != 0 && self.length < N {
            self.all[self.length] = Part { level, named, raw };
            self.length += 1;
        }
    }

    /// Whether a part is known by a name that other builds may have too.
    fn has_names(&self) -> bool {
        self.as_slice().iter().any(|part| part.named != part.raw)
    }

    pub(super) fn as_slice(&self) -> &[Part] {
        &self.all[..self.length]
    }
}

/// The keys of a site.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// The place, then the call.
    pub(super) here: Parts<MOST_PARTS>,
    /// The call, then the parent's image.
    pub(super) child: Parts<MOST_CHILD_PARTS>,
    /// What is known of the call.
    pub(super) call: Call,
    /// The site itself, to the keys of `here`.
    pub(super) identity: Identity,
    /// The site itself, to the keys of `child`.
    pub(super) child_identity: Identity,
}

impl Place {
    pub(super) fn of(site: &Site) -> Place {
        let script = site.script.map_or(0, |script| hash::of(8, &[script.file, script.line]).low());
        let frames = site.frames.map(|frame| frame.map_or(0, frame_hash));
        Place { image: image_hash(site.image), frames, script }
    }

    fn hash(&self) -> hash::Hash64 {
        let [first, second, third] = self.frames.map(u64::from);
        hash::of(9, &[u64::from(self.image), first, second, third, u64::from(self.script)])
    }

    /// A hash of the whole place.
    pub(super) fn whole(&self) -> u32 {
        self.hash().low()
    }
}

impl Call {
    /// What a child that executed no program called.
    pub(super) const FORK: Call = Call { image: FORKED, class: 0, magnitude: 0 };

    pub(super) fn new(image: ImageId, arguments: Option<Arguments>) -> Call {
        let call = Call { image: image_hash(image), ..Call::default() };
        arguments.map_or(call, |arguments| call.with(arguments))
    }

    /// The same with these arguments.
    pub(super) fn with(self, arguments: Arguments) -> Call {
        Call { class: arguments.class.max(1), magnitude: arguments.magnitude.saturating_add(1), ..self }
    }

    pub(super) fn is_known(&self) -> bool {
        self.image != 0
    }
}

impl Chain {
    /// The keys of a place and of what came of it, as far as that is known.
    pub(super) fn new(place: &Place, call: &Call, names: &Names) -> Chain {
        let mut here = Parts::new();
        here.push(Level::Image, names.image(place.image), place.image);
        for (level, frame) in [Level::Frame1, Level::Frame2, Level::Frame3].into_iter().zip(place.frames) {
            here.push(level, names.frame(frame), frame);
        }
        here.push(Level::Script, place.script, place.script);
        if here.has_names() {
            here.push(Level::Build, place.whole(), place.whole());
        }
        let mut child = Parts::new();
        if call.is_known() {
            let named = names.image(call.image);
            here.push(Level::ChildHere, named, call.image);
            here.push(Level::ArgumentsHere, call.class, call.class);
            if named != call.image {
                here.push(Level::ChildBuild, call.image, call.image);
            }
        }
        if call.is_known() && *call != Call::FORK {
            child.push(Level::Child, names.image(call.image), call.image);
            let magnitude = u32::from(call.magnitude);
            child.push(Level::ChildMagnitude, magnitude, magnitude);
            child.push(Level::ChildArguments, call.class, call.class);
            child.push(Level::ChildOfImage, names.image(place.image), place.image);
        }
        let quarter = |number: u32| hash::of(10, &[u64::from(number)]).quarter();
        let identity = Identity {
            place: place.hash().quarter(),
            child: quarter(call.image),
            class: quarter(call.class),
        };
        let child_identity = Identity { place: quarter(place.image), ..identity };
        Chain { here, child, call: *call, identity, child_identity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{Frame, Script};

    fn site(frames: usize, script: Option<u64>) -> Site {
        let frame = |at: usize| Frame { module: ImageId(7), offset: at as u64 };
        Site {
            image: ImageId(5),
            frames: [0, 1, 2].map(|at| (at < frames).then(|| frame(at))),
            script: script.map(|line| Script { file: 1, line }),
            child: None,
        }
    }

    fn levels(site: &Site, call: &Call) -> (Vec<Level>, Vec<Level>) {
        let chain = Chain::new(&Place::of(site), call, &Names::new(4, 4));
        let of = |parts: &[Part]| parts.iter().map(|part| part.level).collect();
        (of(chain.here.as_slice()), of(chain.child.as_slice()))
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        use Level::*;
        let call = Call::new(ImageId(9), Some(Arguments { magnitude: 2, class: 3 }));
        let (here, child) = levels(&site(3, Some(4)), &call);
        assert_eq!(here, [Image, Frame1, Frame2, Frame3, Script, ChildHere, ArgumentsHere]);
        assert_eq!(child, [Child, ChildMagnitude, ChildArguments, ChildOfImage]);
        assert_eq!(levels(&site(1, None), &Call::default()), (vec![Image, Frame1], vec![]));
        assert_eq!(levels(&site(0, Some(1)), &Call::FORK).0, [Image, Script, ChildHere]);
        assert_eq!(levels(&site(0, None), &Call::FORK).1, []);
        let without_arguments = levels(&site(0, None), &Call::new(ImageId(9), None));
        assert_eq!(without_arguments, (vec![Image, ChildHere], vec![Child, ChildOfImage]));
    }

    #[test]
    fn builds_are_parts_where_there_are_names() {
        use Level::*;
        let mut names = Names::new(4, 4);
        let call = Call::new(ImageId(9), None);
        let levels = |names: &Names| {
            let chain = Chain::new(&Place::of(&site(1, None)), &call, names);
            chain.here.as_slice().iter().map(|part| part.level).collect::<Vec<_>>()
        };
        assert_eq!(levels(&names), [Image, Frame1, ChildHere]);
        names.note_image(ImageId(9), Some(1));
        assert_eq!(levels(&names), [Image, Frame1, ChildHere, ChildBuild]);
        names.note_symbol(Frame { module: ImageId(7), offset: 0 }, "main");
        assert_eq!(levels(&names), [Image, Frame1, Build, ChildHere, ChildBuild]);
    }

    #[test]
    fn places_that_differ_have_other_identities() {
        let identity = |site: &Site| Chain::new(&Place::of(site), &Call::FORK, &Names::new(4, 4)).identity;
        assert_ne!(identity(&site(3, None)), identity(&site(2, None)));
        assert_ne!(identity(&site(3, None)), identity(&site(3, Some(1))));
        assert_eq!(identity(&site(3, Some(1))), identity(&site(3, Some(1))));
    }
}
