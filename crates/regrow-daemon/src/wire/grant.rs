//! The message that lends a body to a client: all that it must know to lay out an order for it.

use regrow_abi::task::Task;
use regrow_body::Layout;
use regrow_image::image::PatchKind;
use regrow_image::stack_plan::StackPlan;
use regrow_sys::strings::Strings;

use super::codec::{Reader, WireError, Writer};
use super::{kind, task};

/// A body that is lent. With the message come the body's socket, its control area, the page of the lease, and what is readable when a
/// watched file has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantMessage {
    /// The lease's number on this connection.
    pub lease: u32,
    /// The process that waits for the first order.
    pub armed: i32,
    /// The keeper.
    pub keeper: i32,
    /// The times of runs are noted.
    pub timed: bool,
    /// The arguments that come before the request's own, `argv[0]` first.
    pub first_args: Strings,
    /// The path given to exec, where it is not the image's; without NUL.
    pub exec_path: Option<Vec<u8>>,
    /// What a run is told to be.
    pub task: Task,
    /// How an order is laid out.
    pub layout: Layout,
}

/// How many descriptors come with it.
pub(crate) const GRANT_FDS: usize = 4;

impl GrantMessage {
    pub(super) fn write(&self) -> Writer {
        let mut to = Writer::new(kind::LEASED);
        to.u32(self.lease);
        to.i32(self.armed);
        to.i32(self.keeper);
        to.flag(self.timed);
        to.bytes(self.first_args.as_bytes());
        to.flag(self.exec_path.is_some());
        to.bytes(self.exec_path.as_deref().unwrap_or_default());
        task::write(&self.task, &mut to);
        let Layout { stack, patches } = &self.layout;
        to.u64(stack.top);
        to.u64(stack.floor);
        to.u32(u32::try_from(stack.auxv.len()).unwrap_or(u32::MAX));
        for &(key, value) in &stack.auxv {
            to.u64(key);
            to.u64(value);
        }
        to.u32(u32::try_from(patches.len()).unwrap_or(u32::MAX));
        for &(address, patch) in patches {
            let (number, value) = number_of(patch);
            to.u64(address);
            to.u32(number);
            to.u64(value);
        }
        to
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<GrantMessage, WireError> {
        let (lease, armed, keeper) = (from.u32("lease")?, from.i32("armed")?, from.i32("keeper")?);
        let timed = from.flag("timed")?;
        let first_args = from.strings("first_args")?;
        let (has_path, path) = (from.flag("exec_path")?, from.string("exec_path")?);
        from.require(has_path || path.is_empty(), "exec_path")?;
        let task = task::read(from)?;
        let mut stack = StackPlan { top: from.u64("top")?, floor: from.u64("floor")?, auxv: Vec::new() };
        for _ in 0..from.u32("auxv")? {
            let [key, value] = from.u64s("auxv")?;
            stack.auxv.push((key, value));
        }
        let mut patches = Vec::new();
        for _ in 0..from.u32("patches")? {
            let (address, number) = (from.u64("patches")?, from.u32("patches")?);
            let patch = patch_of(number, from.u64("patches")?).ok_or_else(|| from.malformed("patches"))?;
            patches.push((address, patch));
        }
        let layout = Layout { stack, patches };
        Ok(GrantMessage {
            lease,
            armed,
            keeper,
            timed,
            first_args,
            exec_path: has_path.then_some(path),
            task,
            layout,
        })
    }
}

fn number_of(patch: PatchKind) -> (u32, u64) {
    match patch {
        PatchKind::Argv => (0, 0),
        PatchKind::Argc => (1, 0),
        PatchKind::Envp => (2, 0),
        PatchKind::Argv0(offset) => (3, offset),
        PatchKind::ExecPath(original) => (4, original),
        PatchKind::Exchange => (5, 0),
    }
}

fn patch_of(number: u32, value: u64) -> Option<PatchKind> {
    Some(match (number, value) {
        (0, 0) => PatchKind::Argv,
        (1, 0) => PatchKind::Argc,
        (2, 0) => PatchKind::Envp,
        (3, offset) => PatchKind::Argv0(offset),
        (4, original) => PatchKind::ExecPath(original),
        (5, 0) => PatchKind::Exchange,
        _ => return None,
    })
}
