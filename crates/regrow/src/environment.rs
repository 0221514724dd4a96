//! The changes that a command makes to the environment.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ffi::{CStr, OsStr, OsString};
use std::iter::FusedIterator;
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;

use regrow_sys::environ;
use regrow_sys::strings::{NulFound, Strings};

/// The last environment that a change was made to, and what became of it: most callers make the same change each time.
static LAST: Mutex<Option<Changed>> = Mutex::new(None);

/// Changes to an environment, as a command collects them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EnvChanges {
    /// Whether the run has none of the caller's variables.
    clear: bool,
    /// The variables that are set, or removed where there is no value.
    variables: BTreeMap<OsString, Option<OsString>>,
}

/// What an environment was before changes, and after.
struct Changed {
    before: Strings,
    changes: EnvChanges,
    after: Strings,
}

impl EnvChanges {
    pub(crate) fn set(&mut self, name: &OsStr, value: &OsStr) {
        self.variables.insert(name.to_owned(), Some(value.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &OsStr) {
        if self.clear {
            self.variables.remove(name);
        } else {
            self.variables.insert(name.to_owned(), None);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.clear = true;
        self.variables.clear();
    }

    pub(crate) fn is_cleared(&self) -> bool {
        self.clear
    }

    pub(crate) fn iter(&self) -> CommandEnvs<'_> {
        CommandEnvs { variables: self.variables.iter() }
    }

    /// The whole environment of a run. Without changes it is the caller's as it stands, in its order; with
    /// changes it is sorted by name, each name once.
    pub(crate) fn resolve(&self) -> Result<Strings, NulFound> {
        match (self.clear, self.variables.is_empty()) {
            (false, true) => Ok(environ::current()),
            (false, false) => self.change(environ::current()),
            (true, _) => self.values(),
        }
    }

    /// What becomes of an environment. A program that forks while another thread is here leaves its child a locked mutex: nobody waits for it.
    fn change(&self, current: Strings) -> Result<Strings, NulFound> {
        let Ok(mut last) = LAST.try_lock() else { return self.apply(&current) };
        if let Some(last) = &*last
            && last.before == current
            && last.changes == *self
        {
            return Ok(last.after.clone());
        }
        let after = self.apply(&current)?;
        *last = Some(Changed { before: current, changes: self.clone(), after: after.clone() });
        Ok(after)
    }

    /// The variables that are set, sorted by name.
    fn values(&self) -> Result<Strings, NulFound> {
        let mut set = Strings::new();
        for (name, value) in &self.variables {
            if let Some(value) = value {
                set.push(&[name.as_bytes(), b"=", value.as_bytes()])?;
            }
        }
        Ok(set)
    }

    fn apply(&self, current: &Strings) -> Result<Strings, NulFound> {
        let set = self.values()?;
        let mut set_entries = set.iter();
        let changes = self.variables.iter().map(|(name, value)| {
            let entry = value.as_ref().and_then(|_| set_entries.next());
            (name.as_bytes(), entry)
        });
        let kept = current.iter().filter_map(|entry| Some((name_of(entry)?, Some(entry))));
        let mut entries: Vec<_> = kept.chain(changes).collect();
        // Of several entries with one name the last counts: it is the first of them in reverse order.
        entries.reverse();
        entries.sort_by_key(|&(name, _)| name);
        entries.dedup_by_key(|&mut (name, _)| name);
        let mut resolved = Strings::with_capacity(current.as_bytes().len() + set.as_bytes().len());
        entries.iter().filter_map(|&(_, entry)| entry).for_each(|entry| resolved.push_c_str(entry));
        Ok(resolved)
    }
}

/// The name of an entry of an environment. A name may begin with `=`; an entry without another has none.
fn name_of(entry: &CStr) -> Option<&[u8]> {
    let bytes = entry.to_bytes();
    let equals = 1 + bytes.get(1..)?.iter().position(|&byte| byte == b'=')?;
    bytes.get(..equals)
}

/// The changes that a command makes to the environment, sorted by name: see
/// [`Command::get_envs`](crate::Command::get_envs).
#[derive(Debug, Clone)]
pub struct CommandEnvs<'a> {
    variables: btree_map::Iter<'a, OsString, Option<OsString>>,
}

impl<'a> Iterator for CommandEnvs<'a> {
    type Item = (&'a OsStr, Option<&'a OsStr>);

    fn next(&mut self) -> Option<Self::Item> {
        self.variables.next().map(|(name, value)| (name.as_os_str(), value.as_deref()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.variables.size_hint()
    }
}

impl ExactSizeIterator for CommandEnvs<'_> {}

impl FusedIterator for CommandEnvs<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(current: &[&str], change: impl FnOnce(&mut EnvChanges)) -> Vec<String> {
        let mut strings = Strings::new();
        for entry in current {
            strings.push(&[entry.as_bytes()]).expect("no NUL");
        }
        let mut changes = EnvChanges::default();
        change(&mut changes);
        let applied = changes.apply(&strings).expect("no NUL");
        applied.iter().map(|entry| entry.to_str().expect("UTF-8").to_owned()).collect()
    }

    #[test]
    fn changes_replace_add_and_remove() {
        let current = ["B=1", "A=x=y", "C=3", "B=2"];
        let seen = applied(&current, |changes| {
            changes.set("D".as_ref(), "4".as_ref());
            changes.set("C".as_ref(), "".as_ref());
            changes.remove("A".as_ref());
            changes.remove("Z".as_ref());
        });
        assert_eq!(seen, ["B=2", "C=", "D=4"]);
    }

    #[test]
    fn what_was_changed_before_is_changed_the_same_way() {
        let environments = [["A=1", "B=2"], ["A=1", "B=3"]].map(|entries| {
            let mut strings = Strings::new();
            entries.iter().for_each(|entry| strings.push(&[entry.as_bytes()]).expect("no NUL"));
            strings
        });
        let changes = [("B", "4"), ("C", "5")].map(|(name, value)| {
            let mut changes = EnvChanges::default();
            changes.set(name.as_ref(), value.as_ref());
            changes
        });
        for changes in [&changes[0], &changes[0], &changes[1], &changes[0]] {
            for current in [&environments[0], &environments[0], &environments[1], &environments[0]] {
                let changed = changes.change(current.clone());
                assert_eq!(changed, changes.apply(current), "{changes:?} of {current:?}");
            }
        }
    }

    #[test]
    fn odd_entries_are_read_as_std_reads_them() {
        let current = ["", "no value", "=first=1", "=", "X="];
        let seen = applied(&current, |changes| {
            changes.set("Y".as_ref(), "".as_ref());
        });
        assert_eq!(seen, ["=first=1", "X=", "Y="]);
    }

    #[test]
    fn what_is_set_is_all_of_an_environment_that_was_cleared() {
        let mut changes = EnvChanges::default();
        for (name, value) in [("Z", "1"), ("A", "2"), ("B", "3"), ("Z", "4")] {
            changes.set(name.as_ref(), value.as_ref());
        }
        changes.clear();
        for (name, value) in [("B", "1"), ("A", "2"), ("C", "3"), ("B", "4")] {
            changes.set(name.as_ref(), value.as_ref());
        }
        changes.remove("C".as_ref());
        let resolved = changes.resolve().expect("no NUL");
        assert_eq!(resolved, changes.apply(&Strings::new()).expect("no NUL"));
        assert_eq!(resolved.iter().map(std::ffi::CStr::to_bytes).collect::<Vec<_>>(), [b"A=2", b"B=4"]);
    }

    #[test]
    fn a_nul_byte_counts_only_where_it_would_be_passed() {
        let mut changes = EnvChanges::default();
        changes.clear();
        changes.set("A\0".as_ref(), "1".as_ref());
        assert_eq!(changes.resolve(), Err(NulFound));
        changes.remove("A\0".as_ref());
        assert_eq!(changes.resolve(), Ok(Strings::new()));
    }
}
