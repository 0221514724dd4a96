//! What a process has beside itself: its children and its open descriptors. Tests compare them before and after.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// The children and descriptors of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Numbers of its children, zombies included.
    pub children: Vec<String>,
    /// What each of its descriptors names.
    pub descriptors: Vec<String>,
}

impl Left {
    /// Looks at this process.
    ///
    /// # Errors
    /// When `/proc` does not tell.
    pub fn now() -> io::Result<Left> {
        Ok(Left { children: children(std::process::id())?, descriptors: descriptors()? })
    }

    /// What has come since, after waiting at most `limit` until there is nothing: a thread may still make an image
    /// that nobody wants.
    ///
    /// # Errors
    /// As [`Left::now`].
    pub fn beside(&self, limit: Duration) -> io::Result<Option<String>> {
        let deadline = Instant::now() + limit;
        loop {
            let now = Left::now()?;
            let children = more(&now.children, &self.children);
            let descriptors = more(&now.descriptors, &self.descriptors);
            if children.is_empty() && descriptors.is_empty() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                let children: Vec<String> = children.iter().map(|pid| described(pid)).collect();
                return Ok(Some(format!("children {children:?}, descriptors {descriptors:?}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// What `now` has and `before` has not.
fn more(now: &[String], before: &[String]) -> Vec<String> {
    let mut rest = before.to_vec();
    let mut more = Vec::new();
    for name in now {
        match rest.iter().position(|known| known == name) {
            Some(at) => drop(rest.swap_remove(at)),
            None => more.push(name.clone()),
        }
    }
    more
}

/// What the kernel tells of a process: who reads of one that is left, or that does not go on, finds out by this where it is.
#[must_use]
pub fn described(pid: &str) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let line = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let areas = read("maps").lines().filter(|line| line.contains("memfd:regrow")).count();
    format!(
        "{pid} {} state {}, parent {}, in {} {}, {areas} mappings of Regrow's, command line {:?}",
        line("Name:"),
        line("State:"),
        line("PPid:"),
        read("wchan"),
        read("syscall").trim_end(),
        read("cmdline").replace('\0', " ")
    )
}

/// The children of a process, by the lists of its threads.
///
/// # Errors
/// When `/proc` does not tell, or there is no such process.
pub fn children(pid: u32) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end meanwhile.
        let list = fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        all.extend(list.split_whitespace().map(str::to_owned));
    }
    Ok(all)
}

fn descriptors() -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        // The directory's own descriptor is gone when it is looked at.
        if let Ok(target) = fs::read_link(entry?.path()) {
            all.push(target.to_string_lossy().into_owned());
        }
    }
    all.retain(|target| !(target.starts_with("/proc/") && target.ends_with("/fd")));
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_and_a_child_are_seen_and_seen_to_go() {
        let before = Left::now().expect("/proc is there");
        let file = fs::File::open("/etc/passwd").expect("a file");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let more = before.beside(Duration::ZERO).expect("/proc is there").expect("there is more");
        assert!(more.contains("/etc/passwd") && more.contains(&child.id().to_string()), "{more}");
        drop(file);
        child.kill().expect("it can be killed");
        child.wait().expect("its end");
        let number = child.id().to_string();
        let more = before.beside(Duration::from_secs(5)).expect("/proc is there").unwrap_or_default();
        assert!(!more.contains("/etc/passwd") && !more.contains(&number), "{more}");
    }
}
