//! The attributes of a run ([`Task`]) within a message: of each first a flag, whether it is set, then its value if it is.
//!
//! A client may lie: what is read is within the bounds that the kernel knows. The domain check and the kernel decide
//! whether the client may have it.

use regrow_abi::task::{Resource, Task};

use super::codec::{Reader, WireError, Writer};

/// The bits of a file mode that a creation mask can have.
const UMASK_BITS: u32 = 0o777;
/// `SIGKILL` and `SIGSTOP`, which nobody ignores.
const NEVER_IGNORED: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

pub(super) fn write(task: &Task, to: &mut Writer) {
    to.flag(task.session());
    to.option(task.process_group(), Writer::i32);
    to.option(task.umask(), Writer::u32);
    to.option(task.nice(), Writer::i32);
    to.u32(task.limits().fold(0, |mask, (number, _)| mask | 1 << number));
    for (_, limit) in task.limits() {
        to.u64(limit.soft);
        to.u64(limit.hard);
    }
    to.option(task.ignored_signals(), Writer::u64);
    to.option(task.blocked_signals(), Writer::u64);
    to.option(task.affinity(), |to, processors| processors.iter().for_each(|&word| to.u64(word)));
    to.option(task.slice_ns(), Writer::u64);
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<Task, WireError> {
    let mut task = Task::new();
    task.set_session(from.flag("session")?);
    if let Some(group) = from.option("process_group", Reader::i32)? {
        from.require(group >= 0 && !(group == 0 && task.session()), "process_group")?;
        task.set_process_group(group);
    }
    if let Some(mask) = from.option("umask", Reader::u32)? {
        from.require(mask & !UMASK_BITS == 0, "umask")?;
        task.set_umask(mask);
    }
    if let Some(niceness) = from.option("nice", Reader::i32)? {
        from.require((-20..20).contains(&niceness), "nice")?;
        task.set_nice(niceness);
    }
    read_limits(from, &mut task)?;
    if let Some(signals) = from.option("ignored_signals", Reader::u64)? {
        from.require(signals & NEVER_IGNORED == 0, "ignored_signals")?;
        task.set_ignored_signals(signals);
    }
    if let Some(signals) = from.option("blocked_signals", Reader::u64)? {
        task.set_blocked_signals(signals);
    }
    if let Some(processors) = from.option("affinity", Reader::u64s)? {
        from.require(processors.iter().any(|&word| word != 0), "affinity")?;
        task.set_affinity(&processors);
    }
    if let Some(slice_ns) = from.option("slice_ns", Reader::u64)? {
        from.require(slice_ns > 0, "slice_ns")?;
        task.set_slice_ns(slice_ns);
    }
    Ok(task)
}

/// A set of numbers of resources, then the limit of each.
fn read_limits(from: &mut Reader<'_>, task: &mut Task) -> Result<(), WireError> {
    let mask = from.u32("limits")?;
    from.require(mask >> Resource::ALL.len() == 0, "limits")?;
    for resource in Resource::ALL.into_iter().filter(|resource| mask >> resource.number() & 1 == 1) {
        let (soft, hard) = (from.u64("limits")?, from.u64("limits")?);
        from.require(soft <= hard, "limits")?;
        task.set_limit(resource, soft, hard);
    }
    Ok(())
}
