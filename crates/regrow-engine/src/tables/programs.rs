//! The table of programs: what the names that runs ask for resolve to, and the programs that the policy knows.
//!
//! ```text
//!   Name (program, argv[0], PATH, directory) ──> Resolved (file, arguments) ──> Key ──┐
//!                                                   environment ──> its part of the key ┴──> ProgramId
//! ```
//!
//! A name is remembered as long as every file that decides its answer is watched.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;
use std::sync::Arc;

use regrow_sys::strings::Strings;

use crate::ids::{ImageId, NameId, Numbering, ProgramId};
use crate::run::program::{Key, Name, Resolved};

/// Most names that are remembered. One more takes the place of all.
const MAX_NAMES: usize = 512;
/// A name whose answer rests on more files is looked up each time.
const MAX_NAME_FILES: usize = 256;
/// Most programs that are told apart.
const MAX_PROGRAMS: usize = 1024;

/// A program's key and the part of the environment that belongs to it.
type ProgramKey = (Key<'static>, Vec<CString>);

/// A program that the policy knows.
#[derive(Debug)]
pub(crate) struct ProgramRow {
    pub(crate) key: Key<'static>,
    /// The environment of its last run that had no image: what an image is made with.
    pub(crate) env: Strings,
    /// Its image.
    pub(crate) image: Option<ImageId>,
}

/// The names and programs of a shard.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    names: HashMap<Name<'static>, (NameId, Arc<Resolved>)>,
    name_numbering: Numbering,
    by_key: HashMap<ProgramKey, ProgramId>,
    rows: BTreeMap<ProgramId, ProgramRow>,
    numbering: Numbering,
}

impl Programs {
    /// An empty table whose ids are of this generation.
    pub(crate) fn of_generation(generation: u32) -> Programs {
        let numbering = Numbering::of_generation(generation);
        Programs { name_numbering: numbering.clone(), numbering, ..Programs::default() }
    }

    /// What a name resolves to, if that is remembered.
    pub(crate) fn resolved(&self, name: &Name<'_>) -> Option<Arc<Resolved>> {
        let names: &HashMap<Name<'_>, (NameId, Arc<Resolved>)> = &self.names;
        names.get(name).map(|(_, resolved)| Arc::clone(resolved))
    }

    /// An id for a name that is about to be remembered.
    pub(crate) fn next_name(&mut self) -> NameId {
        self.name_numbering.next_id()
    }

    /// Remembers what a name resolves to.
    pub(crate) fn remember(&mut self, name: Name<'static>, id: NameId, resolved: Arc<Resolved>) {
        self.names.insert(name, (id, resolved));
    }

    /// The names that make room for another one, where room must be made; `None` when the answer is not to be remembered.
    pub(crate) fn room_for(&self, resolved: &Resolved) -> Option<HashSet<NameId>> {
        let files = resolved.files.len() + resolved.absent.len();
        let is_full = self.names.len() >= MAX_NAMES;
        let room = || self.names.values().filter(|_| is_full).map(|(id, _)| *id).collect();
        (files <= MAX_NAME_FILES).then(room)
    }

    /// Forgets names.
    pub(crate) fn forget_names(&mut self, names: &HashSet<NameId>) {
        self.names.retain(|_, (id, _)| !names.contains(id));
    }

    /// The program of this key and environment.
    pub(crate) fn find(&self, key: &ProgramKey) -> Option<ProgramId> {
        self.by_key.get(key).copied()
    }

    /// Adds a program; `None` when the table is full.
    pub(crate) fn add(&mut self, key: ProgramKey, env: Strings) -> Option<ProgramId> {
        if self.rows.len() >= MAX_PROGRAMS {
            return None;
        }
        let id = self.numbering.next_id();
        self.rows.insert(id, ProgramRow { key: key.0.clone(), env, image: None });
        self.by_key.insert(key, id);
        Some(id)
    }

    /// A program.
    pub(crate) fn get(&self, id: ProgramId) -> Option<&ProgramRow> {
        self.rows.get(&id)
    }

    /// A program, to be changed.
    pub(crate) fn get_mut(&mut self, id: ProgramId) -> Option<&mut ProgramRow> {
        self.rows.get_mut(&id)
    }

    /// Forgets that an image is a program's.
    pub(crate) fn forget_image(&mut self, image: ImageId) {
        for row in self.rows.values_mut().filter(|row| row.image == Some(image)) {
            row.image = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::path::PathBuf;

    use super::*;

    fn name(program: &'static std::ffi::CStr) -> Name<'static> {
        Name { program: Cow::Borrowed(program), arg0: None, path: None, directory: None }
    }

    fn resolved(files: usize) -> Arc<Resolved> {
        let file = c"/bin/true".to_owned();
        Arc::new(Resolved {
            exec_path: file.clone(),
            file: file.clone(),
            argv0: file,
            extra: Vec::new(),
            files: vec![PathBuf::from("/bin/true"); files],
            absent: Vec::new(),
        })
    }

    fn key(file: &'static std::ffi::CStr) -> ProgramKey {
        let file = Cow::Borrowed(file);
        (Key { argv0: file.clone(), file, stack_limit: 0, warm: None, ignored: 0, script: None }, Vec::new())
    }

    #[test]
    fn a_name_is_remembered_until_it_is_forgotten() {
        let mut programs = Programs::default();
        let id = programs.next_name();
        programs.remember(name(c"true"), id, resolved(1));
        assert!(programs.resolved(&name(c"true")).is_some() && programs.resolved(&name(c"false")).is_none());
        programs.forget_names(&HashSet::from([id]));
        assert!(programs.resolved(&name(c"true")).is_none());
    }

    #[test]
    fn one_name_too_many_takes_the_place_of_all() {
        let mut programs = Programs::default();
        assert_eq!(programs.room_for(&resolved(MAX_NAME_FILES + 1)), None);
        for number in 0..MAX_NAMES {
            assert_eq!(programs.room_for(&resolved(1)), Some(HashSet::new()), "{number}");
            let id = programs.next_name();
            let name = Name { directory: Some(PathBuf::from(number.to_string())), ..name(c"true") };
            programs.remember(name, id, resolved(1));
        }
        assert_eq!(programs.room_for(&resolved(1)).map(|names| names.len()), Some(MAX_NAMES));
    }

    #[test]
    fn a_program_is_added_once_and_loses_its_image() {
        let mut programs = Programs::default();
        let id = programs.add(key(c"/bin/true"), Strings::new()).expect("there is room");
        assert_eq!((programs.find(&key(c"/bin/true")), programs.find(&key(c"/bin/false"))), (Some(id), None));
        let image = ImageId::new(3);
        programs.get_mut(id).expect("it is there").image = Some(image);
        programs.forget_image(ImageId::new(4));
        assert_eq!(programs.get(id).and_then(|row| row.image), Some(image));
        programs.forget_image(image);
        assert_eq!(programs.get(id).and_then(|row| row.image), None);
    }

    #[test]
    fn ids_of_an_earlier_table_find_nothing() {
        let mut before = Programs::of_generation(0);
        let id = before.add(key(c"/bin/true"), Strings::new()).expect("there is room");
        let mut after = Programs::of_generation(1);
        after.add(key(c"/bin/true"), Strings::new());
        assert!(after.get(id).is_none());
    }
}
