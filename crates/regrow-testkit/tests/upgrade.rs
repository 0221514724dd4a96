//! A program that changes on disk between two runs: the next run is of what is there, and there is none of the old.
//!
//! Each change is tried with the files watched, and with inotify taken away.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;
use std::time::Duration;

use regrow::{Command, Creation, Feature, FeatureSet, Pool};
use regrow_testkit::program;

/// Two versions of a program that ends with the number of its version, alone and out of a library.
struct Versions {
    dir: tempfile::TempDir,
}

impl Versions {
    fn build() -> Versions {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let versions = Versions { dir };
        let alone = versions.write("alone.c", "int main(void) { return ANSWER; }");
        let library = versions.write("library.c", "int answer(void) { return ANSWER; }");
        let linked = versions.write("linked.c", "int answer(void); int main(void) { return answer(); }");
        for answer in ["1", "2"] {
            let define = format!("-DANSWER={answer}");
            compile(&[&define, "-o", &versions.text(&format!("alone{answer}")), &alone]);
            let output = versions.text(&format!("library{answer}"));
            compile(&[&define, "-shared", "-fPIC", "-Wl,-soname,libanswer.so", "-o", &output, &library]);
        }
        compile(&["-o", &versions.text("linked"), &linked, &versions.text("library1")]);
        versions
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("there is room");
        self.text(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Puts a version in a place of its own by renaming, so that what was there stays as it is.
    fn put(&self, version: &str, place: &Path) {
        let new = place.with_extension("new");
        program::copy(&self.path(version), &new).expect("copied");
        fs::rename(new, place).expect("renamed");
    }

    fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("made");
        path
    }
}

fn compile(arguments: &[&str]) {
    let status = StdCommand::new("gcc").args(arguments).status().expect("gcc is installed");
    assert!(status.success(), "gcc {arguments:?}");
}

/// With the files watched, and without inotify.
fn pools() -> [(&'static str, Pool); 2] {
    let blind = FeatureSet::from_iter([Feature::Inotify]);
    [("watched", Pool::new()), ("without inotify", Pool::builder().disable(blind).build())]
}

/// The way the command's next run is made, and the number that it ends with.
fn run(command: &mut Command) -> (Creation, Option<i32>) {
    let mut child = command.spawn().expect("it starts");
    let status = child.wait().expect("its end");
    (child.creation().clone(), status.code())
}

/// Runs before and after a change. The first run after it is of the new version already; once the new image is made,
/// runs are recycled.
fn changed(command: &mut Command, pool: &Pool, kind: &str, change: impl FnOnce()) {
    runs_recycled(command, pool, kind, 1);
    change();
    let (creation, code) = run(command);
    assert_eq!((code, creation.is_recycled()), (Some(2), false), "{kind}, just changed: {creation}");
    runs_recycled(command, pool, kind, 2);
}

fn runs_recycled(command: &mut Command, pool: &Pool, kind: &str, answer: i32) {
    // The engine does not trust a file that changed some milliseconds ago: the kernel's stamps are as coarse.
    std::thread::sleep(Duration::from_millis(30));
    pool.prepare(command).unwrap_or_else(|error| panic!("{kind}: {error}"));
    for _ in 0..3 {
        let (creation, code) = run(command);
        assert_eq!(
            (code, creation.is_recycled()),
            (Some(answer), true),
            "{kind}, version {answer}: {creation}"
        );
    }
}

#[test]
fn a_program_renamed_over() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let place = versions.path("tool");
        versions.put("alone1", &place);
        changed(&mut pool.command(&place), &pool, kind, || versions.put("alone2", &place));
    }
}

#[test]
fn a_program_behind_a_link_that_is_set_elsewhere() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let link = versions.path("link");
        symlink("alone1", &link).expect("made");
        changed(&mut pool.command(&link), &pool, kind, || {
            fs::remove_file(&link).expect("removed");
            symlink("alone2", &link).expect("made");
        });
    }
}

#[test]
fn a_program_in_a_directory_behind_a_link_that_is_set_elsewhere() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        for (directory, version) in [("one", "alone1"), ("two", "alone2")] {
            versions.put(version, &versions.make_dir(directory).join("tool"));
        }
        let link = versions.path("current");
        symlink("one", &link).expect("made");
        changed(&mut pool.command(link.join("tool")), &pool, kind, || {
            symlink("two", versions.path("next")).expect("made");
            fs::rename(versions.path("next"), &link).expect("renamed");
        });
    }
}

#[test]
fn a_directory_exchanged_for_another() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        for (directory, version) in [("bin", "alone1"), ("next", "alone2")] {
            versions.put(version, &versions.make_dir(directory).join("tool"));
        }
        let place = versions.path("bin/tool");
        changed(&mut pool.command(&place), &pool, kind, || {
            fs::rename(versions.path("bin"), versions.path("old")).expect("renamed");
            fs::rename(versions.path("next"), versions.path("bin")).expect("renamed");
        });
    }
}

fn by_name(pool: &Pool, path: &[&Path]) -> Command {
    let mut command = pool.command("regrow-answers");
    command.env("PATH", std::env::join_paths(path).expect("no colon"));
    command
}

#[test]
fn a_program_that_appears_earlier_in_path() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let (first, second) = (versions.make_dir("first"), versions.make_dir("second"));
        versions.put("alone1", &second.join("regrow-answers"));
        changed(&mut by_name(&pool, &[&first, &second]), &pool, kind, || {
            versions.put("alone2", &first.join("regrow-answers"));
        });
    }
}

#[test]
fn a_program_that_appears_earlier_in_path_with_its_directory() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let (first, second) = (versions.path("first"), versions.make_dir("second"));
        versions.put("alone1", &second.join("regrow-answers"));
        changed(&mut by_name(&pool, &[&first, &second]), &pool, kind, || {
            let made = versions.make_dir("made");
            versions.put("alone2", &made.join("regrow-answers"));
            fs::rename(made, &first).expect("renamed");
        });
    }
}

#[test]
fn a_program_that_disappears_from_earlier_in_path() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let (first, second) = (versions.make_dir("first"), versions.make_dir("second"));
        versions.put("alone1", &first.join("regrow-answers"));
        versions.put("alone2", &second.join("regrow-answers"));
        changed(&mut by_name(&pool, &[&first, &second]), &pool, kind, || {
            fs::remove_file(first.join("regrow-answers")).expect("removed");
        });
    }
}

fn with_library(pool: &Pool, versions: &Versions, path: &[&Path]) -> Command {
    let mut command = pool.command(versions.path("linked"));
    command.env("LD_LIBRARY_PATH", std::env::join_paths(path).expect("no colon"));
    command
}

#[test]
fn a_library_renamed_over() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let place = versions.make_dir("lib").join("libanswer.so");
        versions.put("library1", &place);
        changed(&mut with_library(&pool, &versions, &[&versions.path("lib")]), &pool, kind, || {
            versions.put("library2", &place);
        });
    }
}

#[test]
fn a_library_written_in_place() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let place = versions.make_dir("lib").join("libanswer.so");
        versions.put("library1", &place);
        changed(&mut with_library(&pool, &versions, &[&versions.path("lib")]), &pool, kind, || {
            let new = fs::read(versions.path("library2")).expect("it is there");
            fs::write(&place, new).expect("written");
        });
    }
}

#[test]
fn a_library_that_appears_earlier_in_its_path() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let (first, second) = (versions.make_dir("first"), versions.make_dir("second"));
        versions.put("library1", &second.join("libanswer.so"));
        changed(&mut with_library(&pool, &versions, &[&first, &second]), &pool, kind, || {
            versions.put("library2", &first.join("libanswer.so"));
        });
    }
}

#[test]
fn a_script_that_is_given_another_interpreter() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let script = versions.path("script");
        program::write(&script, format!("#!{}\n", versions.text("alone1")).as_bytes()).expect("written");
        changed(&mut pool.command(&script), &pool, kind, || {
            program::write(&script, format!("#!{}\n", versions.text("alone2")).as_bytes()).expect("written");
        });
    }
}

#[test]
fn a_program_that_may_not_be_run_any_more_or_is_gone() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let place = versions.path("tool");
        versions.put("alone1", &place);
        let mut command = pool.command(&place);
        pool.prepare(&command).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(run(&mut command).0.is_recycled());
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let error = command.spawn().expect_err("it may not be run");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{kind}: {error}");
        fs::set_permissions(&place, fs::Permissions::from_mode(0o4755)).expect("it is ours");
        let (creation, code) = run(&mut command);
        assert_eq!((creation.how(), code), ("exec", Some(1)), "{kind}: a set-user-ID program: {creation}");
        fs::remove_file(&place).expect("removed");
        let error = command.spawn().expect_err("it is gone");
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{kind}: {error}");
    }
}

/// Whatever the moment at which the change meets the making of an image: a run after it is of the new version.
#[test]
fn a_program_replaced_again_and_again_while_its_images_are_made() {
    for (kind, pool) in pools() {
        let versions = Versions::build();
        let place = versions.path("tool");
        let mut command = pool.command(&place);
        for round in 0..60u64 {
            let answer = 1 + round % 2;
            versions.put(&format!("alone{answer}"), &place);
            for step in 0..4 {
                let (creation, code) = run(&mut command);
                assert_eq!(code, i32::try_from(answer).ok(), "{kind}, round {round}, run {step}: {creation}");
                std::thread::sleep(Duration::from_micros(round * 200));
            }
        }
    }
}
