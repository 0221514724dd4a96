//! Decides at which point a program is kept, and makes its image and first bodies. Runs on a thread of its own, so that
//! the first run of a program need not wait for it.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use regrow_abi::fault;
use regrow_abi::task::Task;
use regrow_body::Body;
use regrow_image::elf::ElfFacts;
use regrow_image::envkey::{self, KeyNames};
use regrow_image::image::Image;
use regrow_image::make::MakeError;
use regrow_image::resolve::{FileIdentity, FileRefusal, Stamp, open_executable};

use crate::image::attempt::{Job, as_path, attempt, fallback};
use crate::image::warm;
use crate::run::creation::{Fallback, Point};
use crate::run::lookup::are_local;
use crate::run::program::refusal;
use crate::settings::PointChoice;
use regrow_sys::raw::detached_thread;

/// How often, and how long at most, is looked whether the kernel's stamps have passed the last change of a file. A moment of theirs lasts 1 to 10 ms.
const SETTLE_STEP: Duration = Duration::from_millis(1);
const SETTLE_WAIT: Duration = Duration::from_millis(50);

/// An image with its first body.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) image: Image,
    pub(crate) body: Body,
    /// Which environment variables belong to the key.
    pub(crate) names: KeyNames,
    /// Their entries.
    pub(crate) key_env: Vec<CString>,
    /// What the keepers have from the caller.
    pub(crate) then: Task,
    /// Files that changed after this are not what the image was made of.
    pub(crate) started: Stamp,
    /// The mounts when the program was looked up.
    pub(crate) mounts: Option<Arc<str>>,
}

/// Makes an image on a thread of its own.
pub(crate) fn start(job: Job) -> Receiver<Result<Built, Fallback>> {
    let (sender, receiver) = channel();
    let spawned = detached_thread(move || {
        let _ = rustix::thread::set_name(c"regrow-image");
        // Nobody waits any more when the shard is gone: what was made is dropped.
        let _ = sender.send(rebuild_if_written(&job));
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "no thread to make an image on");
    }
    receiver
}

/// As [`build`], a second time where a file was written at the moment in which the first began, or since: the kernel's stamps tell moments
/// of some milliseconds apart, so that a program that is run as soon as it is written is always of that kind. An image may be made within
/// one such moment, so the second begins in a later one.
fn rebuild_if_written(job: &Job) -> Result<Built, Fallback> {
    let built = build(job)?;
    let have_settled =
        |moment| built.image.dependencies.files.iter().all(|file| has_changed_before(file, moment));
    if have_settled(built.started) {
        return Ok(built);
    }
    let began = Instant::now();
    while !have_settled(Stamp::now()) && began.elapsed() < SETTLE_WAIT {
        std::thread::sleep(SETTLE_STEP);
    }
    build(job)
}

/// Whether a file's content is older than a moment. A file that is gone has none.
fn has_changed_before(file: &Path, moment: Stamp) -> bool {
    FileIdentity::of_path(file).is_ok_and(|found| found.changed_before(moment))
}

/// Makes an image and its first body.
pub(crate) fn build(job: &Job) -> Result<Built, Fallback> {
    let started = Stamp::now();
    if job.settings.fault == fault::NO_MEMORY {
        return Err(Fallback::NoMemory);
    }
    let env: Vec<&CStr> = job.env.iter().map(CString::as_c_str).collect();
    let facts = check_file(as_path(&job.key.file))?;
    let only_entry = !job.can_main
        || facts.loads_from_working_directory()
        || envkey::acts_before_main(env.iter().copied()).is_some()
        || envkey::loads_from_working_directory(env.iter().copied()).is_some();
    let (image, names) = match &job.key.warm {
        Some(front_end) => warm::make_image(job, &env, front_end)?,
        None => {
            let image = make_image(job, &env, only_entry)?;
            let names = KeyNames::with_learned(&image.learned);
            (image, names)
        }
    };
    if job.settings.local_files_only {
        are_local(&image.dependencies.files, &image.dependencies.absent)?;
    }
    let key_env = names.select(env.iter().copied()).into_iter().map(CStr::to_owned).collect();
    let body = job.forker.fork_ahead(&image);
    let body = body.map_err(|error| Fallback::ImageFailed { detail: error.to_string() })?;
    Ok(Built { image, body, names, key_env, then: job.then, started, mounts: job.mounts.clone() })
}

/// Libraries whose programs are not kept, by the beginnings of their names, with the reasons. The first gives up rights during the run, which the keeper of
/// the memory has not (SECURITY.md); with the others the kernel can write into memory, or read it, when the run has ended.
const REFUSED_LIBRARIES: &[(&str, &str)] = &[
    ("libseccomp.", "it sandboxes itself with libseccomp"),
    ("liburing.", "it gives its memory to the kernel with io_uring"),
    ("libaio.", "it gives its memory to the kernel with asynchronous I/O"),
];

/// Why no image can be made of a file that exec would load, as far as the file itself tells; `None`: nothing speaks against it. It is read, and
/// not executed.
#[must_use]
pub fn refusal_of(path: &Path) -> Option<Fallback> {
    check_file(path).err().or_else(|| are_local(&[path.to_owned()], &[]).err())
}

/// Reads the file that exec would load and refuses what cannot be kept.
fn check_file(path: &Path) -> Result<ElfFacts, Fallback> {
    let executable = open_executable(path, None).map_err(|error| refusal(&error))?;
    let facts =
        ElfFacts::read(&executable.file).map_err(|error| refusal(&FileRefusal::from_elf(path, error)))?;
    let needs =
        |name: &str| facts.needed.iter().any(|needed| needed.as_encoded_bytes().starts_with(name.as_bytes()));
    let library = REFUSED_LIBRARIES.iter().find(|(name, _)| needs(name)).map(|row| row.1);
    let imports = |name| {
        facts.imports(&executable.file, name).map_err(|error| refusal(&FileRefusal::from_elf(path, error)))
    };
    if let Some(detail) =
        library.or(imports("vmsplice")?.then_some("it gives its memory to pipes with vmsplice"))
    {
        return Err(Fallback::RefusedState { detail: detail.to_owned() });
    }
    Ok(facts)
}

/// The points to try for a program without a front end, from deep to shallow.
///
/// # Errors
/// Why there is none.
fn points(choice: PointChoice, only_entry: bool) -> Result<&'static [Point], &'static str> {
    match choice {
        PointChoice::Auto if only_entry => Ok(&[Point::Entry]),
        PointChoice::Auto => Ok(&[Point::Main, Point::Entry]),
        PointChoice::Only(Point::Entry) => Ok(&[Point::Entry]),
        PointChoice::Only(Point::Main) if only_entry => Err("the loader's settings act before main"),
        PointChoice::Only(Point::Main) => Ok(&[Point::Main]),
        PointChoice::Only(Point::Warm) => Err("it has no front end"),
    }
}

/// Tries the points from deep to shallow.
fn make_image(job: &Job, env: &[&CStr], only_entry: bool) -> Result<Image, Fallback> {
    let refused = |why: &str| Fallback::RefusedState { detail: why.to_owned() };
    let points = points(job.settings.point, only_entry).map_err(refused)?;
    let mut last = refused("there is no point to keep it at");
    for &point in points {
        // A program that does not start with every symbol resolved may start without.
        for bind_now in [true, false] {
            match attempt(job, env, point, bind_now, None) {
                Ok(image) => return Ok(image),
                Err(error) => {
                    tracing::debug!(program = ?job.key.file, %point, bind_now, %error, "no image at this point");
                    let died = matches!(error, MakeError::Died { .. });
                    last = fallback(error);
                    if !died {
                        break;
                    }
                }
            }
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn points_are_tried_from_deep_to_shallow_as_far_as_they_are_safe() {
        let auto = PointChoice::Auto;
        assert_eq!(points(auto, false), Ok(&[Point::Main, Point::Entry][..]));
        assert_eq!(
            points(auto, true),
            Ok(&[Point::Entry][..]),
            "what acts before main cannot be kept at main"
        );
        assert_eq!(points(PointChoice::Only(Point::Main), false), Ok(&[Point::Main][..]));
        assert_eq!(points(PointChoice::Only(Point::Entry), true), Ok(&[Point::Entry][..]));
        assert!(
            points(PointChoice::Only(Point::Main), true).is_err(),
            "no other point than the one asked for"
        );
        assert!(points(PointChoice::Only(Point::Warm), false).is_err());
    }

    #[test]
    fn a_program_that_gives_its_memory_away_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, program) = (folder.path().join("gives.c"), folder.path().join("gives"));
        fs::write(&source, "extern int vmsplice(); int main(void) { return vmsplice(); }").expect("written");
        let compiled =
            std::process::Command::new("cc").arg("-w").arg("-o").arg(&program).arg(&source).status();
        assert!(compiled.expect("a C compiler").success());
        let why = check_file(&program).expect_err("it is refused");
        assert!(matches!(&why, Fallback::RefusedState { detail } if detail.contains("vmsplice")), "{why:?}");
    }

    #[test]
    fn a_file_that_cannot_be_kept_is_refused_before_it_is_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("copy");
        fs::copy("/bin/true", &copy).expect("copied");
        assert!(check_file(&copy).is_ok());
        assert_eq!(refusal_of(&copy), None);
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).expect("changed");
        assert_eq!(check_file(&copy).err(), Some(Fallback::SetUid));
        assert_eq!(refusal_of(&copy), Some(Fallback::SetUid));
        let cut = folder.path().join("cut");
        let whole = fs::read("/bin/true").expect("read");
        fs::write(&cut, &whole[..100]).expect("written");
        fs::set_permissions(&cut, fs::Permissions::from_mode(0o755)).expect("changed");
        assert_eq!(check_file(&cut).err(), Some(Fallback::Malformed));
        assert_eq!(check_file(folder.path()).err(), Some(Fallback::NotRegular));
        assert_eq!(check_file(&folder.path().join("none")).err(), Some(Fallback::ResolveError));
    }
}
