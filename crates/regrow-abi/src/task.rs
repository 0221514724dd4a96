//! What a process is told to be: the attributes that it keeps through exec.
//!
//! ```text
//!   request.task ──inherit(caller)──> the task of the run ──beyond(keeper)──> the task of the order ──> agent
//!              └────────────────────────────────────────────────────────────────────────────────────> exec
//! ```
//!
//! Everybody who starts a process holds a [`Task`] or borrows one. Three places read its attributes one by one: the agent
//! and the exec apply them, the daemon's codec sends them. An attribute that is not set stays as the process has it.
//!
//! Invariants: an attribute that is not set is zero in memory, so that equal tasks are equal words; a leader of a session
//! has no process group to join.

/// The value of a limit that limits nothing (`RLIM_INFINITY`).
pub const UNLIMITED: u64 = u64::MAX;

/// The resource limits that Linux has (`RLIMIT_CPU` to `RLIMIT_RTTIME`).
pub const LIMITS: usize = 16;

/// Words in a set of processors.
pub const AFFINITY_WORDS: usize = 16;

/// A resource that a limit bounds, by the name of its `RLIMIT_` constant (see `getrlimit(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Resource {
    /// CPU time, in seconds.
    Cpu = 0,
    /// Size of a file that the process writes, in bytes.
    Fsize = 1,
    /// Size of the data segment, in bytes.
    Data = 2,
    /// Size of the stack of the first thread, in bytes.
    Stack = 3,
    /// Size of a core file, in bytes.
    Core = 4,
    /// Resident set size, in bytes. Linux keeps the figure and enforces nothing.
    Rss = 5,
    /// Processes and threads of the user.
    Nproc = 6,
    /// One more than the highest descriptor number.
    Nofile = 7,
    /// Locked memory, in bytes.
    Memlock = 8,
    /// Size of the address space, in bytes.
    As = 9,
    /// File locks. Linux keeps the figure and enforces nothing.
    Locks = 10,
    /// Queued signals of the user.
    Sigpending = 11,
    /// Bytes in POSIX message queues of the user.
    Msgqueue = 12,
    /// The ceiling of the niceness, as 20 less the niceness.
    Nice = 13,
    /// The ceiling of the real-time priority.
    Rtprio = 14,
    /// CPU time under a real-time policy without a blocking call, in microseconds.
    Rttime = 15,
}

impl Resource {
    /// Every resource, by rising number.
    pub const ALL: [Self; LIMITS] = [
        Self::Cpu,
        Self::Fsize,
        Self::Data,
        Self::Stack,
        Self::Core,
        Self::Rss,
        Self::Nproc,
        Self::Nofile,
        Self::Memlock,
        Self::As,
        Self::Locks,
        Self::Sigpending,
        Self::Msgqueue,
        Self::Nice,
        Self::Rtprio,
        Self::Rttime,
    ];

    /// The kernel's number of the resource.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// The limit of a resource, in the layout of the kernel's `struct rlimit64`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Limit {
    /// The kernel enforces this value, in the unit of the resource; [`UNLIMITED`] for none.
    pub soft: u64,
    /// The process may raise the soft limit up to this value; [`UNLIMITED`] for no bound.
    pub hard: u64,
}

/// The bits of [`Task`]'s first word: which attributes are set. The bits from `FIRST_LIMIT` on are the limits, by number.
mod attribute {
    pub(super) const SESSION: u32 = 1 << 0;
    pub(super) const PROCESS_GROUP: u32 = 1 << 1;
    pub(super) const UMASK: u32 = 1 << 2;
    pub(super) const NICE: u32 = 1 << 3;
    pub(super) const IGNORED_SIGNALS: u32 = 1 << 4;
    pub(super) const BLOCKED_SIGNALS: u32 = 1 << 5;
    pub(super) const AFFINITY: u32 = 1 << 6;
    pub(super) const SLICE: u32 = 1 << 7;
    pub(super) const FIRST_LIMIT: u32 = 16;

    /// The bit of a limit.
    pub(super) const fn limit(number: u32) -> u32 {
        1 << (FIRST_LIMIT + number)
    }
}

/// The attributes of a process, each of which may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Task {
    set: u32,
    process_group: i32,
    umask: u32,
    nice: i32,
    ignored_signals: u64,
    blocked_signals: u64,
    slice_ns: u64,
    affinity: [u64; AFFINITY_WORDS],
    limits: [Limit; LIMITS],
}

const _: () = {
    assert!(size_of::<Limit>() == 16);
    assert!(size_of::<Task>() == 424);
};

/// The attributes, one by one. A setter returns the task, so that setters can be chained.
impl Task {
    /// A task that leaves everything as the process has it.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            set: 0,
            process_group: 0,
            umask: 0,
            nice: 0,
            ignored_signals: 0,
            blocked_signals: 0,
            slice_ns: 0,
            affinity: [0; AFFINITY_WORDS],
            limits: [Limit { soft: 0, hard: 0 }; LIMITS],
        }
    }

    /// Whether the process leads a session of its own, without a controlling terminal.
    #[must_use]
    pub const fn session(&self) -> bool {
        self.has(attribute::SESSION)
    }

    /// Sets [`Task::session`].
    pub const fn set_session(&mut self, session: bool) -> &mut Self {
        if session {
            self.set |= attribute::SESSION;
        } else {
            self.set &= !attribute::SESSION;
        }
        self
    }

    /// The process group that the process joins; 0 makes a group of its own. `None` also for the leader of a session that
    /// asks for a group of its own: it leads one already, and may not be asked to.
    #[must_use]
    pub const fn process_group(&self) -> Option<i32> {
        let is_led = self.session() && self.process_group == 0;
        if self.has(attribute::PROCESS_GROUP) && !is_led { Some(self.process_group) } else { None }
    }

    /// Sets [`Task::process_group`].
    pub const fn set_process_group(&mut self, group: i32) -> &mut Self {
        self.set |= attribute::PROCESS_GROUP;
        self.process_group = group;
        self
    }

    /// Leaves the process in the group that it has.
    pub const fn unset_process_group(&mut self) -> &mut Self {
        self.set &= !attribute::PROCESS_GROUP;
        self.process_group = 0;
        self
    }

    /// The file mode creation mask.
    #[must_use]
    pub const fn umask(&self) -> Option<u32> {
        if self.has(attribute::UMASK) { Some(self.umask) } else { None }
    }

    /// Sets [`Task::umask`].
    pub const fn set_umask(&mut self, mask: u32) -> &mut Self {
        self.set |= attribute::UMASK;
        self.umask = mask;
        self
    }

    /// The niceness, from -20 to 19.
    #[must_use]
    pub const fn nice(&self) -> Option<i32> {
        if self.has(attribute::NICE) { Some(self.nice) } else { None }
    }

    /// Sets [`Task::nice`].
    pub const fn set_nice(&mut self, niceness: i32) -> &mut Self {
        self.set |= attribute::NICE;
        self.nice = niceness;
        self
    }

    /// The signals that the process ignores, bit 0 is signal 1. All others have their default.
    #[must_use]
    pub const fn ignored_signals(&self) -> Option<u64> {
        if self.has(attribute::IGNORED_SIGNALS) { Some(self.ignored_signals) } else { None }
    }

    /// Sets [`Task::ignored_signals`].
    pub const fn set_ignored_signals(&mut self, signals: u64) -> &mut Self {
        self.set |= attribute::IGNORED_SIGNALS;
        self.ignored_signals = signals;
        self
    }

    /// The signals that are blocked when the program starts, bit 0 is signal 1.
    #[must_use]
    pub const fn blocked_signals(&self) -> Option<u64> {
        if self.has(attribute::BLOCKED_SIGNALS) { Some(self.blocked_signals) } else { None }
    }

    /// Sets [`Task::blocked_signals`].
    pub const fn set_blocked_signals(&mut self, signals: u64) -> &mut Self {
        self.set |= attribute::BLOCKED_SIGNALS;
        self.blocked_signals = signals;
        self
    }

    /// The processors that the process may use, the first 1,024.
    #[must_use]
    pub const fn affinity(&self) -> Option<&[u64; AFFINITY_WORDS]> {
        if self.has(attribute::AFFINITY) { Some(&self.affinity) } else { None }
    }

    /// Sets [`Task::affinity`].
    pub const fn set_affinity(&mut self, processors: &[u64; AFFINITY_WORDS]) -> &mut Self {
        self.set |= attribute::AFFINITY;
        self.affinity = *processors;
        self
    }

    /// How long the scheduler lets the process run before others, in nanoseconds, where its policy is an ordinary one
    /// (`sched_runtime` of `sched_setattr(2)`, Linux 6.12; earlier kernels take it without effect). The kernel takes what is
    /// shorter than 0.1 ms for that, and what is longer than 100 ms for that.
    #[must_use]
    pub const fn slice_ns(&self) -> Option<u64> {
        if self.has(attribute::SLICE) { Some(self.slice_ns) } else { None }
    }

    /// Sets [`Task::slice_ns`].
    pub const fn set_slice_ns(&mut self, slice_ns: u64) -> &mut Self {
        self.set |= attribute::SLICE;
        self.slice_ns = slice_ns;
        self
    }

    /// The limit of a resource.
    #[must_use]
    pub const fn limit(&self, resource: Resource) -> Option<Limit> {
        if self.has(attribute::limit(resource.number())) {
            Some(self.limits[resource as usize])
        } else {
            None
        }
    }

    /// Sets [`Task::limit`].
    pub const fn set_limit(&mut self, resource: Resource, soft: u64, hard: u64) -> &mut Self {
        self.set |= attribute::limit(resource.number());
        self.limits[resource as usize] = Limit { soft, hard };
        self
    }

    /// The limits that are set, with the numbers of their resources, which rise.
    pub fn limits(&self) -> impl Iterator<Item = (u32, &Limit)> {
        (0..).zip(&self.limits).filter(|&(number, _)| self.has(attribute::limit(number)))
    }

    const fn has(&self, attribute: u32) -> bool {
        self.set & attribute != 0
    }
}

/// What becomes of a task on its way from a request to a process.
impl Task {
    /// The task of a process that is told to be this, and has the rest from its caller. A session takes its leader out of
    /// the caller's process group.
    #[must_use]
    pub fn inherit(&self, caller: &Task) -> Task {
        let lost = if self.session() { attribute::PROCESS_GROUP } else { 0 };
        let mut task = *self;
        task.copy(caller, caller.set & !self.set & !lost);
        task
    }

    /// What of this a process must still be told that has everything else from its keeper.
    #[must_use]
    pub fn beyond(&self, keeper: &Task) -> Task {
        let mut task = Task::new();
        task.copy(self, self.set & !self.in_common(keeper));
        task
    }

    /// Takes some attributes of another task.
    fn copy(&mut self, from: &Task, attributes: u32) {
        let takes = |attribute: u32| attributes & attribute != 0;
        self.set |= attributes;
        if takes(attribute::PROCESS_GROUP) {
            self.process_group = from.process_group;
        }
        if takes(attribute::UMASK) {
            self.umask = from.umask;
        }
        if takes(attribute::NICE) {
            self.nice = from.nice;
        }
        if takes(attribute::IGNORED_SIGNALS) {
            self.ignored_signals = from.ignored_signals;
        }
        if takes(attribute::BLOCKED_SIGNALS) {
            self.blocked_signals = from.blocked_signals;
        }
        if takes(attribute::AFFINITY) {
            self.affinity = from.affinity;
        }
        if takes(attribute::SLICE) {
            self.slice_ns = from.slice_ns;
        }
        for (number, (to, from)) in (0..).zip(self.limits.iter_mut().zip(&from.limits)) {
            if takes(attribute::limit(number)) {
                *to = *from;
            }
        }
    }

    /// The attributes that both tasks have with the same value. A group of one's own is the same as no other.
    fn in_common(&self, other: &Task) -> u32 {
        let same_group = self.process_group == other.process_group && self.process_group != 0;
        let values = [
            (same_group, attribute::PROCESS_GROUP),
            (self.umask == other.umask, attribute::UMASK),
            (self.nice == other.nice, attribute::NICE),
            (self.ignored_signals == other.ignored_signals, attribute::IGNORED_SIGNALS),
            (self.blocked_signals == other.blocked_signals, attribute::BLOCKED_SIGNALS),
            (self.affinity == other.affinity, attribute::AFFINITY),
            (self.slice_ns == other.slice_ns, attribute::SLICE),
        ];
        let limits = (0..).zip(self.limits.iter().zip(&other.limits));
        let limits = limits.map(|(number, (one, other))| (one == other, attribute::limit(number)));
        let same = values.into_iter().chain(limits).filter(|row| row.0);
        same.fold(0, |same, row| same | row.1) & self.set & other.set
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A task with every attribute but a session, each value made of `seed`.
    fn full(seed: u32) -> Task {
        let mut task = Task::new();
        let wide = u64::from(seed);
        task.set_process_group(100 + seed.cast_signed()).set_umask(seed).set_nice(seed.cast_signed());
        task.set_ignored_signals(wide)
            .set_blocked_signals(wide + 1)
            .set_affinity(&[wide + 2; AFFINITY_WORDS])
            .set_slice_ns(wide + 3);
        for resource in Resource::ALL {
            task.set_limit(resource, wide, UNLIMITED - u64::from(resource.number()));
        }
        task
    }

    #[test]
    fn what_is_set_is_there_and_nothing_else() {
        let mut task = Task::new();
        assert_eq!(
            (task.session(), task.process_group(), task.umask(), task.nice()),
            (false, None, None, None)
        );
        assert_eq!((task.ignored_signals(), task.blocked_signals(), task.affinity()), (None, None, None));
        assert_eq!((task.limits().count(), task.limit(Resource::Cpu)), (0, None));
        task.set_umask(0).set_nice(-3).set_limit(Resource::Rttime, 7, UNLIMITED).set_limit(
            Resource::Cpu,
            1,
            2,
        );
        assert_eq!((task.umask(), task.nice(), task.process_group()), (Some(0), Some(-3), None));
        let limits: Vec<(u32, Limit)> = task.limits().map(|(number, limit)| (number, *limit)).collect();
        assert_eq!(limits, [(0, Limit { soft: 1, hard: 2 }), (15, Limit { soft: 7, hard: UNLIMITED })]);
        assert_eq!(task.limit(Resource::Rttime), Some(Limit { soft: 7, hard: UNLIMITED }));
        assert_eq!(task.limit(Resource::Stack), None);
    }

    #[test]
    fn a_leader_of_a_session_makes_no_group() {
        let mut task = Task::new();
        assert_eq!(task.set_process_group(0).process_group(), Some(0));
        assert_eq!(task.set_session(true).process_group(), None);
        // Another group is asked for all the same: the kernel refuses that.
        assert_eq!(task.set_process_group(7).process_group(), Some(7));
        assert_eq!(task.set_session(false).set_process_group(0).process_group(), Some(0));
        assert_eq!(task.unset_process_group().process_group(), None);
        assert_eq!(task, Task::new());
    }

    #[test]
    fn a_request_goes_before_its_caller() {
        let (caller, mut asked) = (full(3), Task::new());
        assert_eq!(asked.inherit(&caller), caller);
        asked.set_nice(9).set_limit(Resource::Core, 0, 0);
        let mut expected = caller;
        expected.set_nice(9).set_limit(Resource::Core, 0, 0);
        assert_eq!(asked.inherit(&caller), expected);
        assert_eq!(full(4).inherit(&caller), full(4));
        assert_eq!(asked.inherit(&Task::new()), asked);
    }

    #[test]
    fn a_leader_of_a_session_is_not_in_its_callers_group() {
        let mut asked = Task::new();
        asked.set_session(true);
        let task = asked.inherit(&full(3));
        assert!(task.session());
        assert_eq!((task.process_group(), task.nice()), (None, Some(3)));
        // Its keeper is not in the session that it makes.
        assert!(task.beyond(&full(3)).session());
    }

    #[test]
    fn a_process_is_told_what_its_keeper_has_not() {
        let keeper = full(3);
        assert_eq!(keeper.beyond(&keeper), Task::new());
        assert_eq!(full(4).beyond(&Task::new()), full(4));
        let mut task = keeper;
        task.set_umask(0o77).set_limit(Resource::Nofile, 5, 6);
        let mut expected = Task::new();
        expected.set_umask(0o77).set_limit(Resource::Nofile, 5, 6);
        assert_eq!(task.beyond(&keeper), expected);
    }

    #[test]
    fn each_attribute_alone_is_inherited_and_told() {
        let whole = full(5);
        let bits = (0..u32::BITS).map(|bit| 1 << bit).filter(|&bit| whole.has(bit));
        for bit in bits {
            let mut one = Task::new();
            one.copy(&whole, bit);
            assert_eq!(one.set, bit);
            assert_eq!(one.inherit(&full(6)).beyond(&full(6)), one, "attribute {bit:#x}");
            assert_eq!(Task::new().inherit(&one), one, "attribute {bit:#x}");
            assert_eq!(one.beyond(&one), Task::new(), "attribute {bit:#x}");
            assert_eq!(one.beyond(&full(6)), one, "attribute {bit:#x}");
        }
    }

    #[test]
    fn a_group_of_ones_own_is_always_made() {
        let mut task = Task::new();
        task.set_process_group(0);
        assert_eq!(task.beyond(&task).process_group(), Some(0));
    }

    #[test]
    fn resources_have_the_numbers_of_the_kernel() {
        for (resource, number) in Resource::ALL.into_iter().zip(0..) {
            assert_eq!(resource.number(), number, "{resource:?}");
        }
    }
}
