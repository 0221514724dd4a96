//! The processes behind a pool: their CPU time and their memory.
//!
//! All of them are children of this process. The sum of CPU time has three parts: this process, the children that it waited
//! for, and the children that live. When this process waits for a child, the child's time moves from the third part to the
//! second. So the difference of two sums is the time that was used in between, whoever came or went.
//!
//! Memory counts once for each address space. A keeper and the process that it has armed share one; a seed has one alone.
//! That tells bodies from seeds.

use std::fs;
use std::io;
use std::time::Duration;

use regrow_sys::raw::share_memory;

use super::native::{cpu_time, own_cpu_time, waited_cpu_time};

/// CPU time, by who used it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// By this process.
    pub(crate) own: Duration,
    /// By its children that it has waited for: the runs.
    pub(crate) waited: Duration,
    /// By its children that live: what keeps bodies and images.
    pub(crate) living: Duration,
}

impl CpuTime {
    /// What this process and all its children, past and present, have used until this moment.
    pub(crate) fn now() -> io::Result<Self> {
        let (own, waited) = (own_cpu_time()?, waited_cpu_time()?);
        // A child that ends meanwhile has used next to nothing: nothing runs when this is called.
        let living = children()?.into_iter().filter_map(cpu_time).sum();
        Ok(Self { own, waited, living })
    }

    /// All of it.
    pub(crate) fn sum(self) -> Duration {
        self.own + self.waited + self.living
    }
}

/// What a kept body holds, in KiB: the mean of all bodies (see [`held_kib`]) but the one of the process `except`. `None`
/// where there is none, or the kernel does not tell.
pub(crate) fn body_kib(except: Option<i32>) -> io::Result<Option<f64>> {
    let mut spaces: Vec<Vec<i32>> = Vec::new();
    for pid in children()? {
        let same = |space: &&mut Vec<i32>| {
            space.first().is_some_and(|first| share_memory(*first, pid) == Some(true))
        };
        match spaces.iter_mut().find(same) {
            Some(space) => space.push(pid),
            None => spaces.push(vec![pid]),
        }
    }
    let is_body = |space: &&Vec<i32>| space.len() > 1 && !space.iter().any(|pid| Some(*pid) == except);
    let bodies = spaces.iter().filter(is_body);
    let sizes: Vec<u64> = bodies.filter_map(|space| held_kib(*space.first()?)).collect();
    if sizes.is_empty() {
        return Ok(None);
    }
    #[allow(clippy::cast_precision_loss, reason = "memory of 8 EiB still has whole KiB")]
    Ok(Some(sizes.iter().sum::<u64>() as f64 / sizes.len() as f64))
}

/// How much memory a process holds, in KiB: its share of anonymous pages and of pages of memory files, and its page tables.
/// Pages of files belong to the page cache, which has them whether a process maps them or not.
pub(crate) fn held_kib(pid: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(field_kib(&rollup, "Pss_Anon:")? + field_kib(&rollup, "Pss_Shmem:")? + field_kib(&status, "VmPTE:")?)
}

/// The number of a line of `/proc` that begins with `name`.
fn field_kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// The living children of this process.
fn children() -> io::Result<Vec<i32>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<i32>() else { continue };
        // A process that has ended meanwhile is no child.
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        if is_living_child(&stat, own) {
            children.push(pid);
        }
    }
    Ok(children)
}

/// Whether a line of `/proc/PID/stat` is of a process that lives and has this parent. Its name may hold anything.
fn is_living_child(stat: &str, parent: i32) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let state = fields.next();
    let is_child = fields.next().and_then(|field| field.parse().ok()) == Some(parent);
    is_child && !matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_known_whatever_its_name_is() {
        assert!(is_living_child("12 (a) R 1) S 7 12 12", 7));
        assert!(!is_living_child("12 (a) S 7) S 8 12 12", 7));
        assert!(!is_living_child("12 (a) Z 7 12 12", 7));
        assert!(!is_living_child("", 7));
    }

    #[test]
    fn cpu_time_of_a_child_counts_while_it_lives_and_after() {
        let before = CpuTime::now().unwrap().sum();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; read line";
        let mut command = Command::new("sh");
        let mut child =
            command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 5];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(children().unwrap().contains(&pid));
        let used = cpu_time(pid).unwrap();
        let living = CpuTime::now().unwrap().sum();
        assert!(used > Duration::ZERO && living >= before + used, "{before:?} {used:?} {living:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!children().unwrap().contains(&pid));
        assert!(CpuTime::now().unwrap().sum() >= before + used);
    }

    #[test]
    fn memory_is_read_from_the_kernels_tables() {
        assert_eq!(field_kib("Rss:  90 kB\nPss:   34 kB\nPss_Dirty: 5 kB\n", "Pss:"), Some(34));
        assert_eq!(field_kib("Rss: 90 kB\n", "Pss:"), None);
        let own = rustix::process::getpid().as_raw_nonzero().get();
        assert!(held_kib(own).unwrap() > 0);
        assert_eq!(share_memory(own, own), Some(true));
    }
}
