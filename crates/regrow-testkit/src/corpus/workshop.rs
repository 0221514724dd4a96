//! Work directories: one per entry, always in the same place, always the same at the start of a run.
//!
//! ```text
//!  root/work/ENTRY/        where the runs of ENTRY happen
//!  root/template/ENTRY/    what is copied there before each run: its files, and what its setup made
//! ```
//!
//! All times in a template are fixed: an hour apart, in the order of the names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::compare::Outcome;
use super::error::{At, CorpusError};
use super::generate::generate;
use super::manifest::{ArgumentList, Corpus, Entry};
use super::run::{Input, Invocation, Output, PlainExec, Spawner};
use super::tree::{Tree, sorted_names};
use crate::program;

/// The time of a template's first name: 2001-09-09 01:46:40 UTC, in seconds.
const FIRST_TIME_S: i64 = 1_000_000_000;
/// The distance between the times of two names, in seconds.
const TIME_STEP_S: i64 = 3600;
/// How long a setup script may take.
const SETUP_LIMIT: Duration = Duration::from_secs(60);

/// Prepares work directories below one root, and runs entries in them.
#[derive(Debug)]
pub struct Workshop<'a> {
    corpus: &'a Corpus,
    root: PathBuf,
}

impl<'a> Workshop<'a> {
    /// A workshop for the entries of `corpus` below `root`, an existing directory of its own.
    pub fn new(corpus: &'a Corpus, root: &Path) -> Self {
        Self { corpus, root: root.to_path_buf() }
    }

    /// The directory in which the runs of `entry` happen.
    pub fn work_dir(&self, entry: &Entry) -> PathBuf {
        self.root.join("work").join(&entry.name)
    }

    fn template_dir(&self, entry: &Entry) -> PathBuf {
        self.root.join("template").join(&entry.name)
    }

    /// Runs `entry` once with one of its argument lists, in a fresh work directory, and reads what it left.
    ///
    /// # Errors
    ///
    /// A [`CorpusError`] if the directory cannot be prepared or read, or the run does not start or does not end.
    pub fn run(
        &self,
        entry: &Entry,
        which: ArgumentList,
        spawner: &mut dyn Spawner,
    ) -> Result<Outcome, CorpusError> {
        let dir = self.fresh_dir(entry)?;
        let invocation = self.invocation(entry, which);
        let result = spawner
            .run(&invocation, &dir)
            .map_err(|source| CorpusError::Run { entry: entry.name.clone(), source })?;
        Ok(Outcome::new(result, Tree::read(&dir)?))
    }

    /// Removes the directories of `entry`.
    ///
    /// # Errors
    ///
    /// [`CorpusError::Io`] if something in them cannot be removed.
    pub fn clear(&self, entry: &Entry) -> Result<(), CorpusError> {
        remove(&self.work_dir(entry))?;
        remove(&self.template_dir(entry))
    }

    /// What the workshop gives a run of `entry`.
    pub fn invocation(&self, entry: &Entry, which: ArgumentList) -> Invocation {
        let dir = self.work_dir(entry);
        let dir_text = dir.to_string_lossy();
        let fill = |text: &String| OsString::from(text.replace("{dir}", &dir_text));
        let mut argv = entry.arguments(which).iter().map(fill);
        let program = argv.next().unwrap_or_default();
        let args = argv.collect();
        let env = self.environment(entry).iter().map(|(name, value)| (name.into(), fill(value))).collect();
        let stdin = match (&entry.stdin, &entry.stdin_file) {
            (Some(text), _) => Input::Text(text.clone().into_bytes()),
            (None, Some(file)) => Input::File(dir.join(file)),
            (None, None) => Input::Null,
        };
        let stdout = entry.stdout_file.as_ref().map_or(Output::Pipe, |file| Output::File(dir.join(file)));
        let limit = Duration::from_secs(entry.limit_s);
        Invocation { entry: entry.name.clone(), program, args, env, stdin, stdout, limit }
    }

    fn environment(&self, entry: &Entry) -> BTreeMap<String, String> {
        let mut environment = self.corpus.environment.clone();
        for name in ["HOME", "TMPDIR"] {
            environment.insert(name.to_owned(), "{dir}".to_owned());
        }
        environment.extend(entry.env.clone());
        environment.retain(|name, _| !entry.unset.contains(name));
        environment
    }

    fn fresh_dir(&self, entry: &Entry) -> Result<PathBuf, CorpusError> {
        let (work, template) = (self.work_dir(entry), self.template_dir(entry));
        if !template.exists() {
            self.make_template(entry)?;
        }
        remove(&work)?;
        copy_tree(&template, &work)?;
        Ok(work)
    }

    /// Builds the template in the work directory itself, so that a setup script sees the path that the runs see.
    fn make_template(&self, entry: &Entry) -> Result<(), CorpusError> {
        let work = self.work_dir(entry);
        remove(&work)?;
        fs::create_dir_all(&work).at("create", &work)?;
        for file in &entry.files {
            self.place(file, &work)?;
        }
        fix_times(&work)?;
        if let Some(script) = &entry.setup {
            self.run_setup(entry, script, &work)?;
            fix_times(&work)?;
        }
        copy_tree(&work, &self.template_dir(entry))
    }

    fn place(&self, file: &str, work: &Path) -> Result<(), CorpusError> {
        if let Some(name) = file.strip_prefix("gen/") {
            let to = work.join(name);
            let bytes = generate(name).ok_or(io::ErrorKind::NotFound).at("generate", &to)?;
            fs::write(&to, bytes).at("write", &to)?;
            return fs::set_permissions(&to, Permissions::from_mode(0o644)).at("set the mode of", &to);
        }
        let from = self.corpus.dir.join("files").join(file);
        let to = work.join(file);
        copy_tree(&from, &to)?;
        plain_modes(&to)
    }

    fn run_setup(&self, entry: &Entry, script: &str, work: &Path) -> Result<(), CorpusError> {
        let mut invocation = self.invocation(entry, ArgumentList::Main);
        invocation.program = "/bin/sh".into();
        invocation.args = vec!["-euc".into(), script.into()];
        invocation.stdin = Input::Null;
        invocation.stdout = Output::Pipe;
        invocation.limit = SETUP_LIMIT;
        let result = PlainExec
            .run(&invocation, work)
            .map_err(|source| CorpusError::Run { entry: entry.name.clone(), source })?;
        if result.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        Err(CorpusError::Setup { entry: entry.name.clone(), status: result.status, stderr })
    }
}

fn remove(dir: &Path) -> Result<(), CorpusError> {
    match fs::remove_dir_all(dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", dir),
        _ => Ok(()),
    }
}

/// Copies a file, link or directory with its modes and modification times. Names are made in sorted order, so that
/// two copies on one file system list them in one order.
fn copy_tree(from: &Path, to: &Path) -> Result<(), CorpusError> {
    let facts = fs::symlink_metadata(from).at("look at", from)?;
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).at("create", parent)?;
    }
    if facts.is_dir() {
        fs::create_dir_all(to).at("create", to)?;
        for name in sorted_names(from)? {
            copy_tree(&from.join(&name), &to.join(&name))?;
        }
        fs::set_permissions(to, facts.permissions()).at("set the mode of", to)?;
    } else if facts.is_symlink() {
        let target = fs::read_link(from).at("read the link", from)?;
        symlink(&target, to).at("create", to)?;
    } else if facts.is_file() && facts.mode() & 0o111 != 0 {
        program::copy(from, to).at("write", to)?;
    } else if facts.is_file() {
        fs::copy(from, to).at("write", to)?;
    } else {
        return Err(CorpusError::UnsupportedFile { path: from.to_path_buf() });
    }
    set_time(to, facts.mtime(), facts.mtime_nsec())
}

/// Gives copied input files the two modes that version control keeps: 0644, or 0755 for a program or directory.
fn plain_modes(path: &Path) -> Result<(), CorpusError> {
    let facts = fs::symlink_metadata(path).at("look at", path)?;
    if facts.is_symlink() {
        return Ok(());
    }
    let mode = if facts.is_dir() || facts.mode() & 0o100 != 0 { 0o755 } else { 0o644 };
    fs::set_permissions(path, Permissions::from_mode(mode)).at("set the mode of", path)?;
    if facts.is_dir() {
        for name in sorted_names(path)? {
            plain_modes(&path.join(name))?;
        }
    }
    Ok(())
}

/// Sets the times of all that is in `dir`, and last of `dir` itself.
fn fix_times(dir: &Path) -> Result<(), CorpusError> {
    let mut time_s = FIRST_TIME_S;
    fix_times_from(dir, &mut time_s)
}

fn fix_times_from(dir: &Path, time_s: &mut i64) -> Result<(), CorpusError> {
    for name in sorted_names(dir)? {
        let path = dir.join(name);
        if fs::symlink_metadata(&path).at("look at", &path)?.is_dir() {
            fix_times_from(&path, time_s)?;
        } else {
            set_time(&path, *time_s, 0)?;
            *time_s += TIME_STEP_S;
        }
    }
    set_time(dir, *time_s, 0)?;
    *time_s += TIME_STEP_S;
    Ok(())
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) -> Result<(), CorpusError> {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).at("set the time of", path)
}
