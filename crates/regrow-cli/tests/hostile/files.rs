//! Attacks with a file system that never answers the daemon.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use regrow_daemon::wire::{SpawnMessage, ToClient};
use regrow_sys::strings::Strings;
use regrow_testkit::program;

use crate::hanging::Hanging;
use crate::line::Line;
use crate::messages::{Given, answered, message};
use crate::service::eventually;
use crate::siege::Siege;

/// Messages of each sort that bring files of it.
const MESSAGES: usize = 3;
/// How long a client waits for an answer that may not come.
const MOMENT: Duration = Duration::from_millis(100);

/// Where the attacks are played.
pub(crate) struct Stage<'a> {
    pub(crate) siege: &'a Siege,
    pub(crate) hanging: &'a Hanging,
    /// Where the file system is mounted.
    pub(crate) folder: &'a Path,
}

impl Stage<'_> {
    fn file(&self) -> File {
        File::open(self.folder.join("file")).unwrap()
    }

    /// Waits until a further request of the daemon waits than before.
    fn asks(&self, what: &str, before: usize) {
        eventually(what, || self.hanging.waiting() > before);
    }

    /// Orders something over a connection that stays.
    fn orders(&self, order: SpawnMessage) -> Line {
        let line = Line::to(&self.siege.service);
        line.send_with(&message(order), &Given::new().all()).unwrap();
        line
    }
}

/// In this order: the last one keeps all threads waiting that there are for lookups.
pub(crate) const ATTACKS: &[fn(&Stage<'_>) -> String] = &[
    closed_after_garbage,
    closed_unread,
    closed_after_a_run,
    working_directory,
    mounted_over,
    in_path,
    programs,
];

/// Files come with what is no message: the daemon closes them.
fn closed_after_garbage(stage: &Stage<'_>) -> String {
    let (before, file) = (stage.hanging.waiting(), stage.file());
    for _ in 0..MESSAGES {
        let line = Line::to(&stage.siege.service);
        line.send_with(b"garbage", &[file.as_fd(); 2]).unwrap();
        assert!(matches!(line.last_words(), None | Some(ToClient::Failed { .. })));
    }
    stage.asks("the file's close after garbage", before);
    format!("{MESSAGES} messages of garbage with files of it")
}

/// Files come with messages that the daemon does not look at, because the first one ends the connection.
fn closed_unread(stage: &Stage<'_>) -> String {
    let (before, file) = (stage.hanging.waiting(), stage.file());
    for _ in 0..MESSAGES {
        let line = Line::to(&stage.siege.service);
        // The daemon may have closed it meanwhile.
        let sent = (0..MESSAGES).filter(|_| line.send_with(b"garbage", &[file.as_fd()]).is_ok()).count();
        assert!(sent > 0);
    }
    stage.asks("the file's close without a look at its message", before);
    format!("{MESSAGES} clients that send files of it and leave")
}

/// A run has a file of it, and the daemon closes its own copy.
fn closed_after_a_run(stage: &Stage<'_>) -> String {
    let (before, file) = (stage.hanging.waiting(), stage.file());
    let order = message(stage.siege.order("sh", &["-c", "cat; exit 8"]));
    let mut runs = 0;
    eventually("runs with a file of it", || {
        let given = Given::new();
        let [null, _, _, ticket] = given.all();
        let descriptors: [BorrowedFd<'_>; 4] = [file.as_fd(), null, null, ticket];
        let last = answered(stage.siege, &order, &descriptors);
        runs += usize::from(matches!(last, Some(ToClient::Ended { status }) if status == 8 << 8));
        runs == MESSAGES
    });
    stage.asks("the file's close after a run", before);
    format!("{runs} runs with files of it")
}

/// A run has its working directory there. It is the run that goes there, and not the daemon.
fn working_directory(stage: &Stage<'_>) -> String {
    let (before, mut runs) = (stage.hanging.waiting(), 0);
    let order = stage.siege.order("sh", &["-c", "cd . && exit 9"]);
    let order = SpawnMessage { directory: stage.folder.as_os_str().as_encoded_bytes().to_vec(), ..order };
    eventually("runs with their working directory there", || {
        let last = answered(stage.siege, &message(order.clone()), &Given::new().all());
        runs += usize::from(matches!(last, Some(ToClient::Ended { status }) if status == 9 << 8));
        runs == MESSAGES
    });
    assert_eq!(stage.hanging.waiting(), before, "the daemon has asked for it");
    format!("{runs} runs with their working directory there")
}

/// It is mounted over a program that the daemon keeps: the daemon asks for the other program that is there now, and keeps nobody waiting.
fn mounted_over(stage: &Stage<'_>) -> String {
    let own = stage.siege.service.folder().join("own");
    fs::create_dir(&own).unwrap();
    let kept = own.join("program");
    program::copy("/bin/true".as_ref(), &kept).unwrap();
    let kept = kept.to_str().unwrap();
    stage.siege.service.warm(&[kept]);
    let over = Hanging::mount(&own, stage.siege.daemon).unwrap();
    stage.siege.others_are_served();
    let line = stage.orders(stage.siege.order(kept, &[]));
    eventually("a look at the other program", || over.waiting() > 0);
    stage.siege.others_are_served();
    assert!(!line.has_something(Duration::ZERO), "it is not known what is there");
    drop(over);
    match line.receive() {
        Some(ToClient::Declined { .. }) => {}
        other => panic!("{other:?}"),
    }
    "one mounted over what is kept".to_owned()
}

/// The name of a program is looked for there first.
fn in_path(stage: &Stage<'_>) -> String {
    let before = stage.hanging.waiting();
    let mut env = Strings::new();
    env.push(&[b"PATH=", stage.folder.as_os_str().as_encoded_bytes(), b":/usr/bin:/bin"]).unwrap();
    let line = stage.orders(SpawnMessage { env, ..stage.siege.order("sh", &["-c", ":"]) });
    stage.asks("a look at the folder of PATH", before);
    stage.siege.others_are_served();
    assert!(!line.has_something(Duration::ZERO), "it is not known what is there");
    "one in the PATH".to_owned()
}

/// Programs that are there, more than the daemon has threads for. Those for which there is none are declined at once.
fn programs(stage: &Stage<'_>) -> String {
    let before = stage.hanging.waiting();
    let mut lines: Vec<Line> = Vec::new();
    eventually("a program too many", || {
        let program = stage.folder.join(format!("program-{}", lines.len()));
        let line = stage.orders(stage.siege.order(program.to_str().unwrap(), &[]));
        let answer = if line.has_something(MOMENT) { line.receive() } else { None };
        lines.push(line);
        match answer {
            None => false,
            Some(ToClient::Declined { reason, .. }) => reason == b"all_busy",
            Some(other) => panic!("{other:?}"),
        }
    });
    stage.asks("a look at a program", before);
    stage.siege.others_are_served();
    format!("{} programs that are there", lines.len())
}
