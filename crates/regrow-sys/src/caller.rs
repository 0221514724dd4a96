//! What a child inherits from the calling process and thread, read so that it can be compared.
//!
//! [`UserIds`] is read before every spawn: whoever drops its rights must not start a process with the old ones. [`Caller`] is
//! the rest; reading it takes tens of microseconds.

#![allow(unsafe_code, reason = "raw system calls into buffers on the stack")]

use std::fs;
use std::io;

use regrow_abi::client::SAID_WORDS;
use regrow_abi::task::{AFFINITY_WORDS, Resource, Task};

use crate::raw::{check, syscall};
use crate::scheduling;

/// User and group ids of the calling thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserIds {
    user: [u32; 3],
    group: [u32; 3],
}

impl UserIds {
    /// Reads them: two system calls.
    #[must_use]
    pub fn read() -> UserIds {
        let mut ids = UserIds::default();
        let three = |number: i64, to: &mut [u32; 3]| {
            let at = to.as_mut_ptr();
            // SAFETY: the three words are live and distinct.
            unsafe { syscall(number, [at as usize, at.add(1) as usize, at.add(2) as usize, 0, 0, 0]) };
        };
        three(libc::SYS_getresuid, &mut ids.user);
        three(libc::SYS_getresgid, &mut ids.group);
        ids
    }
}

/// The signal mask of the calling thread; bit 0 is signal 1.
#[must_use]
pub fn signal_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: a signal set of the kernel is 8 bytes.
    unsafe { syscall(libc::SYS_rt_sigprocmask, [0, 0, &raw mut mask as usize, 8, 0, 0]) };
    mask
}

/// Random words of the kernel, taken many at a time. A forked copy of the process has the same ones: it must not use
/// them.
#[derive(Debug)]
pub struct RandomWords {
    words: [u64; RANDOM_WORDS],
    left: usize,
}

/// How many words are taken at once.
const RANDOM_WORDS: usize = 192;

impl RandomWords {
    /// No words yet.
    #[must_use]
    pub const fn new() -> RandomWords {
        RandomWords { words: [0; RANDOM_WORDS], left: 0 }
    }

    /// Words that nobody had before.
    ///
    /// # Errors
    /// As `getrandom(2)`.
    pub fn take<const N: usize>(&mut self) -> io::Result<[u64; N]> {
        let mut taken = [0; N];
        for word in &mut taken {
            if self.left == 0 {
                self.refill()?;
            }
            self.left -= 1;
            if let Some(kept) = self.words.get_mut(self.left) {
                *word = std::mem::take(kept);
            }
        }
        Ok(taken)
    }

    fn refill(&mut self) -> io::Result<()> {
        let bytes = size_of_val(&self.words);
        // SAFETY: the buffer is live and has this size. The kernel gives up to 256 bytes at once, and more unless a
        // signal comes between: the count is what was written.
        let got = check(unsafe {
            syscall(libc::SYS_getrandom, [self.words.as_mut_ptr() as usize, bytes, 0, 0, 0, 0])
        })?;
        self.left = got / size_of::<u64>();
        if self.left == 0 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

impl Default for RandomWords {
    fn default() -> Self {
        Self::new()
    }
}

/// What a body cannot be given: when it differs, the body is of another domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// User and group ids.
    pub ids: UserIds,
    /// Supplementary groups, capability sets, securebits.
    pub credentials: Vec<u64>,
    /// An exec gives it capabilities that it has given up: it is root, and they are in its bounding or inheritable set. A
    /// process that shares something with another, or is traced, does not gain them, so no body has what exec gives.
    pub gains_by_exec: bool,
    /// `no_new_privs` and the seccomp mode.
    pub seccomp: [i64; 2],
    /// Session.
    pub session: i32,
    /// Device, inode and mount of the root directory.
    pub root: [u64; 3],
    /// The namespaces, as the kernel names them.
    pub namespaces: Vec<String>,
    /// The control groups, as the kernel lists them.
    pub cgroup: Vec<u8>,
    /// Scheduling policy and flags, I/O priority, timer slack, personality.
    pub scheduling: [i64; 5],
}

impl Domain {
    /// What a client of one page says of itself; the daemon asks the kernel for the rest ([`crate::peer`]). See
    /// [`regrow_abi::client::SAID_WORDS`].
    #[must_use]
    pub fn said(&self) -> [u64; SAID_WORDS] {
        let [device, inode, mount] = self.root;
        let [policy, flags, io_priority, timer_slack, personality] = self.scheduling.map(i64::cast_unsigned);
        let secure_bits = self.credentials.last().copied().unwrap_or(u64::MAX);
        [device, inode, mount, policy, flags, io_priority, timer_slack, personality, secure_bits]
    }

    /// Everything but session and control group, as bytes that are equal where all of it is.
    #[must_use]
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        let ids = self.ids.user.iter().chain(&self.ids.group).map(|&id| u64::from(id));
        let numbers = self.seccomp.iter().chain(&self.scheduling).map(|number| number.cast_unsigned());
        let words = ids.chain(self.root).chain(numbers).chain(self.credentials.iter().copied());
        words.for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        for name in &self.namespaces {
            bytes.push(0);
            bytes.extend_from_slice(name.as_bytes());
        }
        bytes
    }
}

/// The signals 32 and 33, which belong to the C library: programs cannot set them, and it takes 33 over with the first thread that
/// a caller starts. Some callers ignore both, GNU make among them.
pub const OF_C_LIBRARY: u64 = 0b11 << 31;

/// Everything that is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// What a body cannot be given.
    pub domain: Domain,
    /// What a run can be given: process group, niceness, limits, ignored signals, processors.
    pub task: Task,
}

impl Caller {
    /// Reads everything.
    #[must_use]
    pub fn read() -> Caller {
        let scheduling = scheduling::read().unwrap_or_default();
        let (ids, sets) = (UserIds::read(), capability_sets());
        let domain = Domain {
            gains_by_exec: gains_by_exec(&ids, sets),
            credentials: credentials(sets),
            ids,
            seccomp: [prctl(libc::PR_GET_NO_NEW_PRIVS), prctl(libc::PR_GET_SECCOMP)],
            session: number(libc::SYS_getsid, [0; 2]),
            root: root(),
            namespaces: namespaces(),
            cgroup: fs::read("/proc/self/cgroup").unwrap_or_default(),
            scheduling: [
                i64::from(scheduling.policy),
                scheduling.flags.cast_signed(),
                i64::from(number(libc::SYS_ioprio_get, [1, 0])),
                prctl(libc::PR_GET_TIMERSLACK),
                i64::from(number(libc::SYS_personality, [0xffff_ffff, 0])),
            ],
        };
        let mut task = Task::new();
        task.set_nice(scheduling.nice).set_ignored_signals(ignored()).set_affinity(&affinity());
        for resource in Resource::ALL {
            let [soft, hard] = limit(resource);
            task.set_limit(resource, soft, hard);
        }
        let group = number(libc::SYS_getpgid, [0; 2]);
        // It is zero where the group's leader is in no pid namespace of this process's: nobody can be put into it.
        if group > 0 {
            task.set_process_group(group);
        }
        Caller { domain, task }
    }
}

fn number(call: i64, args: [usize; 2]) -> i32 {
    // SAFETY: calls that take numbers only.
    i32::try_from(unsafe { syscall(call, [args[0], args[1], 0, 0, 0, 0]) }).unwrap_or(-1)
}

fn prctl(option: i32) -> i64 {
    // SAFETY: queries without pointers.
    unsafe { syscall(libc::SYS_prctl, [option.unsigned_abs() as usize, 0, 0, 0, 0, 0]) as i64 }
}

/// Effective, permitted and inheritable capabilities: capabilities 0 to 31, then the same of 32 to 63.
fn capability_sets() -> [u32; 6] {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let mut sets = [0u32; 6];
    // SAFETY: the kernel's capability header and data for version 3.
    unsafe { syscall(libc::SYS_capget, [header.as_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    sets
}

/// See [`Domain::gains_by_exec`]. Capabilities that it has are not asked for, so that an ordinary root costs little.
fn gains_by_exec(ids: &UserIds, sets: [u32; 6]) -> bool {
    /// `SECBIT_NOROOT`.
    const NO_ROOT: i64 = 1;
    let is_root = ids.user.iter().take(2).any(|&id| id == 0);
    if !is_root || prctl(libc::PR_GET_SECUREBITS) & NO_ROOT != 0 {
        return false;
    }
    let set = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let (permitted, inheritable) = (set(sets[1], sets[4]), set(sets[2], sets[5]));
    // SAFETY: a query with numbers only.
    let bounding = |number: usize| unsafe {
        syscall(libc::SYS_prctl, [libc::PR_CAPBSET_READ.unsigned_abs() as usize, number, 0, 0, 0, 0])
    };
    let missing = (0..64).filter(|number| permitted >> number & 1 == 0);
    let mut known = missing.map(|number| (number, bounding(number))).take_while(|answer| answer.1 >= 0);
    known.any(|(number, is_bounding)| is_bounding == 1 || inheritable >> number & 1 == 1)
}

fn credentials(sets: [u32; 6]) -> Vec<u64> {
    // SAFETY: a count of zero asks how many groups there are.
    let count = unsafe { syscall(libc::SYS_getgroups, [0; 6]) };
    let mut groups = vec![0u32; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the group buffer has the count that is named.
    let count =
        unsafe { syscall(libc::SYS_getgroups, [groups.len(), groups.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    let groups = groups.get(..usize::try_from(count).unwrap_or(0)).unwrap_or_default();
    let securebits = prctl(libc::PR_GET_SECUREBITS).unsigned_abs();
    sets.iter().chain(groups).map(|&word| u64::from(word)).chain([securebits]).collect()
}

fn root() -> [u64; 3] {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    statx(CWD, "/", AtFlags::empty(), StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).map_or([0; 3], |root| {
        [u64::from(root.stx_dev_major) << 32 | u64::from(root.stx_dev_minor), root.stx_ino, root.stx_mnt_id]
    })
}

fn namespaces() -> Vec<String> {
    const NAMES: [&str; 9] =
        ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time_for_children", "user", "uts"];
    let read = |name: &&str| fs::read_link(format!("/proc/thread-self/ns/{name}")).ok();
    NAMES.iter().filter_map(read).map(|link| link.to_string_lossy().into_owned()).collect()
}

fn limit(resource: Resource) -> [u64; 2] {
    let mut pair = [0; 2];
    let number = resource.number() as usize;
    // SAFETY: the pair has the layout of `struct rlimit64`.
    unsafe { syscall(libc::SYS_prlimit64, [0, number, 0, pair.as_mut_ptr() as usize, 0, 0]) };
    pair
}

fn ignored() -> u64 {
    const SIG_IGN: usize = 1;
    (1..=64usize).fold(0, |mask, signal| {
        let mut action = [0usize; 4];
        // SAFETY: the kernel's `struct sigaction` is four words.
        unsafe { syscall(libc::SYS_rt_sigaction, [signal, 0, action.as_mut_ptr() as usize, 8, 0, 0]) };
        if action[0] == SIG_IGN { mask | 1 << (signal - 1) } else { mask }
    })
}

fn affinity() -> [u64; AFFINITY_WORDS] {
    let mut words = [0; AFFINITY_WORDS];
    // SAFETY: the buffer has the size that is named.
    unsafe {
        syscall(libc::SYS_sched_getaffinity, [0, size_of_val(&words), words.as_mut_ptr() as usize, 0, 0, 0])
    };
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_readings_of_one_caller_are_equal() {
        assert_eq!(Caller::read(), Caller::read());
        assert_eq!(Caller::read().domain.ids, UserIds::read());
    }

    #[test]
    fn a_fingerprint_tells_two_domains_apart() {
        let domain = Caller::read().domain;
        let mut session = domain.clone();
        session.session += 1;
        assert_eq!(domain.fingerprint(), session.fingerprint());
        let mut other = domain.clone();
        other.ids.group[1] += 1;
        assert_ne!(domain.fingerprint(), other.fingerprint());
        let mut other = domain.clone();
        other.namespaces.pop();
        assert_ne!(domain.fingerprint(), other.fingerprint());
    }

    #[test]
    fn the_signal_mask_is_the_threads() {
        use std::mem::zeroed;
        let before = signal_mask();
        // SAFETY: zero is a valid set; the mask is of this test's thread alone.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigaddset(&raw mut set, libc::SIGUSR2);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        assert_eq!(signal_mask(), before | 1 << (libc::SIGUSR2 - 1));
    }

    #[test]
    fn no_random_word_comes_twice() {
        let mut words = RandomWords::new();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..RANDOM_WORDS {
            let taken: [u64; 3] = words.take().expect("the kernel has random bytes");
            taken.iter().for_each(|word| assert!(*word != 0 && seen.insert(*word), "{word} came twice"));
        }
    }
}
