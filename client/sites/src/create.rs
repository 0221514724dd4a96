//! A creation: its place and what is predicted about the child, then what is told of it.

use regrow_abi::sites::{Channel, Class, How, Place, Record};

use crate::calls::Caller;
use crate::{schedule, script, state, sys, tell, unwind};

/// A creation that is about to happen.
pub struct Pending {
    channel: Channel<'static>,
    how: How,
    class: Class,
    /// The key of all that is known of the place.
    key: u64,
    process: u32,
    time_ns: u64,
    place: Place,
}

impl Pending {
    /// At a call; `None` where nobody asks. The child may execute a path, and gets words, where the call names them.
    pub fn at(how: How, from: &Caller, path: Option<&[u8]>, argv: *const *const u8) -> Option<Pending> {
        let channel = state::channel()?;
        let process = sys::own_number();
        let time_ns = sys::now_ns();
        let mut frames = unwind::frames(channel, process, from);
        if let Some(inner) = inner_frame(how) {
            frames = [inner, frames[0], frames[1]];
        }
        let place = Place { image: state::image(), frames, script: script::place(argv) };
        let keys = place.keys();
        let class = if channel.levers().is_none() {
            Class::Unknown
        } else if let Some(path) = path {
            let path = regrow_abi::sites::fnv1a(path);
            let with = |key| Place::key_with_path(key, path);
            let [all, script, call] = keys;
            channel.predictions().find(&[with(all), with(call), all, script, call, Place::key_of_path(path)])
        } else {
            channel.predictions().find(&keys)
        };
        Some(Pending { channel, how, class, key: keys[0], process, time_ns, place })
    }

    /// In the parent: the child has this number; 0 where the C library does not tell it.
    pub fn tell(&self, child: u32) {
        let &Pending { channel, how, class, process: pid, time_ns, place, .. } = self;
        tell::record(channel, pid, &Record::Created { pid, time_ns, how, child, class, place });
    }

    /// In the parent, about a child in which no code of this library runs before its program.
    pub fn tell_and_schedule(&self, child: u32) {
        self.tell(child);
        schedule::apply(self.channel, child, self.class);
    }

    /// In the child.
    pub fn in_child(&self) {
        if self.channel.levers().is_some() {
            state::set_child(sys::own_number(), self.key);
            schedule::apply(self.channel, 0, self.class);
        }
    }
}

/// Of a function that creates its child inside of the C library: the place of the function itself, as the return address of a call in it.
fn inner_frame(how: How) -> Option<(u64, u64)> {
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
    Some((module.identity(), (address.wrapping_sub(module.base()) + 1) as u64))
}
