//! A creation: its place and what is predicted about the child, then what is told of it.

use regrow_abi::SchedAttr;
use regrow_abi::sites::{Channel, Class, How, Levers, Place, Record, fnv1a};

use crate::caller::Caller;
use crate::{schedule, script, state, sys, tell, unwind};

/// A creation that is about to happen.
pub struct Pending {
    channel: Channel<'static>,
    how: How,
    class: Class,
    process: u32,
    time_ns: u64,
    place: Place,
    /// How the child is to be scheduled, if not as its parent is.
    change: Option<SchedAttr>,
}

impl Pending {
    /// At a call; `None` where nobody asks. The child may execute a path, and gets words, where the call names them.
    pub fn at(how: How, from: &Caller, path: Option<&[u8]>, argv: *const *const u8) -> Option<Pending> {
        let channel = state::channel()?;
        let process = state::own_number();
        let time_ns = sys::now_ns();
        let mut frames = unwind::frames(channel, process, from);
        if let Some(inner) = inner_frame(channel, process, how) {
            frames = [inner, frames[0], frames[1]];
        }
        let place = Place {
            image: state::image(),
            frames,
            script: script::place(argv, &|hash, text| tell::text(channel, process, hash, text)),
        };
        let mut pending =
            Pending { channel, how, class: Class::Unknown, process, time_ns, place, change: None };
        if let Some(levers) = channel.levers() {
            pending.predict(&levers, path);
        }
        Some(pending)
    }

    /// Looks the class up, and what it changes. A child begins as its parent is, so that the parent can tell.
    #[inline(never)]
    fn predict(&mut self, levers: &Levers, path: Option<&[u8]>) {
        let keys = self.place.keys();
        let predictions = self.channel.predictions();
        self.class = match path {
            Some(path) => {
                let path = fnv1a(path);
                let with = |key| Place::key_with_path(key, path);
                let [all, script, call] = keys;
                predictions.find(&[with(all), with(call), all, script, call, Place::key_of_path(path)])
            }
            None => {
                state::set_child_key(self.process, keys[0]);
                predictions.find(&keys)
            }
        };
        self.change = sys::scheduling(0).and_then(|now| levers.change(self.class, &now));
    }

    /// In the parent: the child has this number; 0 where the C library does not tell it.
    pub fn tell(&self, child: u32) {
        let &Pending { channel, how, class, process: pid, time_ns, place, .. } = self;
        tell::record(channel, pid, &Record::Created { pid, time_ns, how, child, class, place });
    }

    /// In the parent, about a child in which no code of this library runs before its program.
    pub fn tell_and_schedule(&self, child: u32) {
        self.tell(child);
        if let Some(change) = &self.change {
            schedule::set(child, change);
        }
    }

    /// In the child, which touches no memory but its stack: each page that it does costs it a fault.
    pub fn in_child(&self) {
        if let Some(change) = &self.change {
            schedule::set(0, change);
        }
    }
}

/// Of a function that creates its child inside of the C library: the place of the function itself, as the return address of a call in it.
fn inner_frame(channel: Channel<'_>, process: u32, how: How) -> Option<(u64, u64)> {
    let name = match how {
        How::System => crate::next::Name::System,
        How::Popen => crate::next::Name::Popen,
        How::Wordexp => crate::next::Name::Wordexp,
        How::Forkpty => crate::next::Name::Forkpty,
        How::Daemon => crate::next::Name::Daemon,
        How::Fork | How::Vfork | How::Clone | How::Spawn => return None,
    };
    let address = crate::next::address(name);
    let module = crate::modules::Module::at(address)?;
    // One byte further, so that who looks for the call before a return address finds the function.
    Some((tell::module(channel, process, &module), (address.wrapping_sub(module.base()) + 1) as u64))
}
