//! A model is kept whatever happens to the file, to the disk and to whoever writes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use regrow_collect::kept::{Kept, KeptError, Loaded, Unreadable};
use regrow_sites::model::DEFAULT_BUDGET_BYTES;
use regrow_sites::site::{ImageId, Site};
use regrow_sites::{DecodeError, Event, Model, ProcessKey, Usage};

/// Tells the process of a test to be a writer: the folder, the site that it learns, and how often it saves.
const WRITER: &str = "REGROW_TEST_WRITER";

fn site(number: u64) -> Site {
    Site { image: ImageId(number), frames: [None; 3], script: None, child: None }
}

/// Learns of a site whose children use so much processor time.
fn learn(model: &mut Model, number: u64, cpu_us: u64) {
    for run in 0..4_u32 {
        let process = ProcessKey { pid: run + 2, created_us: number * 1_000_000 + cpu_us };
        let parent = ProcessKey { pid: 1, created_us: 0 };
        model.observe(&Event::Created { time_us: 5, process, parent, site: site(number) });
        let usage = Usage { cpu_us, life_us: cpu_us, ..Usage::default() };
        model.observe(&Event::Ended { time_us: 9, process, usage });
    }
}

fn knows(model: &Model, number: u64) -> Option<u64> {
    let prediction = model.predict(&site(number));
    (prediction.confidence > 0.5).then(|| prediction.cpu_us.quantile(0.5))
}

fn load(kept: &Kept) -> Loaded {
    kept.load(DEFAULT_BUDGET_BYTES).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

#[test]
fn what_was_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/regrow/sites");
    let kept = Kept::at(path.clone()).unwrap();
    assert!(load(&kept).set_aside.is_none() && knows(&load(&kept).model, 1).is_none());
    let mut model = Model::default();
    learn(&mut model, 1, 5_000);
    assert!(kept.save(&mut model).unwrap().is_none());
    let loaded = load(&kept);
    assert!(loaded.set_aside.is_none() && knows(&loaded.model, 1).is_some_and(|us| us.abs_diff(5_000) < 500));
    assert_eq!(names(&path), ["lock", "model"]);
    assert_eq!(fs::metadata(kept.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn two_that_learn_at_once_keep_what_both_have_learned() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let (mut first, mut second) = (load(&kept).model, load(&kept).model);
    learn(&mut first, 1, 300);
    learn(&mut second, 2, 70_000);
    kept.save(&mut first).unwrap();
    kept.save(&mut second).unwrap();
    assert!(knows(&second, 1).is_some(), "it has taken in what was saved meanwhile");
    let model = load(&kept).model;
    assert!(knows(&model, 1).is_some() && knows(&model, 2).is_some());
    // Saving again and again counts no run twice.
    let runs = model.predict(&site(2)).runs;
    (0..5).for_each(|_| drop(kept.save(&mut second).unwrap()));
    assert_eq!(load(&kept).model.predict(&site(2)).runs, runs);
}

#[test]
fn a_file_that_cannot_be_read_is_set_aside_and_learning_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let mut model = Model::default();
    learn(&mut model, 1, 5_000);
    let good = model.encode();
    let cut = good[..good.len() / 2].to_vec();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 4;
    let mut later = good.clone();
    later[8] = 9;
    let bad: [&[u8]; 5] = [b"", b"{}", &cut, &flipped, &later];
    for (number, bytes) in (1..).zip(bad) {
        fs::write(kept.file(), bytes).unwrap();
        let loaded = load(&kept);
        let set_aside = loaded.set_aside.expect("it cannot be read");
        assert!(matches!(set_aside.why, Unreadable::Bytes(_)), "{number}: {}", set_aside.why);
        assert_eq!(set_aside.path, folder.path().join(format!("model.damaged-{number}")));
        assert_eq!(fs::read(&set_aside.path).unwrap(), bytes, "nothing of it is lost");
        assert!(knows(&loaded.model, 1).is_none() && !kept.file().exists());
    }
    // A save meets it too.
    fs::write(kept.file(), &flipped).unwrap();
    let set_aside = kept.save(&mut model).unwrap().expect("it cannot be read");
    assert!(matches!(set_aside.why, Unreadable::Bytes(DecodeError::Checksum { .. })));
    assert!(knows(&load(&kept).model, 1).is_some());
    // Their number has an end.
    for _ in 0..20 {
        fs::write(kept.file(), "x").unwrap();
        assert!(load(&kept).set_aside.is_some());
    }
    assert_eq!(names(folder.path()).len(), 8 + 1, "{:?}", names(folder.path()));
}

#[test]
fn what_is_no_file_is_set_aside_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let secret = folder.path().join("elsewhere");
    fs::write(&secret, Model::default().encode()).unwrap();
    symlink(&secret, kept.file()).unwrap();
    assert!(matches!(load(&kept).set_aside.unwrap().why, Unreadable::NoFile), "a link is not followed");
    assert!(secret.exists());
    fs::create_dir(kept.file()).unwrap();
    assert!(matches!(load(&kept).set_aside.unwrap().why, Unreadable::NoFile));
    rustix::fs::mknodat(rustix::fs::CWD, kept.file(), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(load(&kept).set_aside.unwrap().why, Unreadable::NoFile));
    let large = fs::File::create(kept.file()).unwrap();
    large.set_len(1 << 30).unwrap();
    assert!(matches!(load(&kept).set_aside.unwrap().why, Unreadable::TooLarge));
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Kept::at(folder.path().to_owned()).unwrap_err();
    let path = folder.path().display().to_string();
    assert_eq!(error.to_string(), format!("{path}: others may write to it"));
    let below = folder.path().join("file/sites");
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(matches!(Kept::at(below), Err(KeptError::Folder(_))));
}

#[test]
fn what_cannot_be_written_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let mut model = Model::default();
    learn(&mut model, 1, 5_000);
    kept.save(&mut model).unwrap();
    let before = fs::read(kept.file()).unwrap();
    // A folder of this name cannot be removed as a file.
    fs::create_dir(folder.path().join("model.new")).unwrap();
    learn(&mut model, 2, 80);
    let error = kept.save(&mut model).unwrap_err();
    assert!(error.to_string().contains("model.new: cannot be removed: "), "{error}");
    assert_eq!(fs::read(kept.file()).unwrap(), before);
    fs::remove_dir(folder.path().join("model.new")).unwrap();
    fs::write(folder.path().join("model.new"), "what a killed writer has left").unwrap();
    kept.save(&mut model).unwrap();
    assert_eq!(names(folder.path()), ["lock", "model"]);
    assert!(knows(&load(&kept).model, 2).is_some());
}

/// Not a test of its own: what the tests below start as processes of their own.
#[test]
fn writer() {
    let Ok(order) = std::env::var(WRITER) else { return };
    let [folder, number, times] = order.split(' ').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let kept = Kept::at(folder.into()).unwrap().patience(Duration::from_secs(600));
    let number: u64 = number.parse().unwrap();
    let mut model = load(&kept).model;
    for time in 0..times.parse().unwrap() {
        learn(&mut model, number, 1_000 * number);
        learn(&mut model, 1_000 + time, 50);
        assert!(kept.save(&mut model).unwrap().is_none());
    }
}

fn start_writer(folder: &Path, number: u64, times: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer"]).env(WRITER, format!("{} {number} {times}", folder.display()));
    command.stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn processes_that_save_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let writers: Vec<Child> = (1..=4).map(|number| start_writer(folder.path(), number, 15)).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let loaded = load(&Kept::at(folder.path().to_owned()).unwrap());
    assert!(loaded.set_aside.is_none());
    for number in 1..=4 {
        let known = knows(&loaded.model, number).expect("each was saved");
        assert!(known.abs_diff(1_000 * number) < 200 * number, "{number}: {known}");
    }
    assert_eq!(names(folder.path()), ["lock", "model"]);
}

#[test]
fn a_writer_that_is_killed_leaves_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let inode = || fs::metadata(kept.file()).map(|file| file.ino()).ok();
    for round in 0..25 {
        let before = inode();
        let mut writer = start_writer(folder.path(), 7, 1_000_000);
        while inode() == before {
            assert!(writer.try_wait().unwrap().is_none(), "it writes until it is killed");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(round * 397));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let loaded = load(&kept);
        assert!(loaded.set_aside.is_none(), "{round}: {:?}", loaded.set_aside);
        assert!(knows(&loaded.model, 7).is_some());
    }
    // The lock of whoever was killed is gone, and what it has not finished does no harm.
    kept.save(&mut load(&kept).model).unwrap();
    assert_eq!(names(folder.path()), ["lock", "model"]);
}

#[test]
fn a_writer_that_stands_still_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::at(folder.path().to_owned()).unwrap();
    let kept = kept.patience(Duration::from_millis(30));
    let lock = fs::File::create(folder.path().join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = kept.save(&mut Model::default()).unwrap_err();
    assert!(error.to_string().ends_with("/lock: others have held it locked for 0.03 s"), "{error}");
    drop(load(&kept));
    // Another test may be starting a process, which has a copy of the file until it executes something.
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::Unlock).unwrap();
    kept.save(&mut Model::default()).unwrap();
}
