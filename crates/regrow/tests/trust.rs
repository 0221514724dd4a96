//! What a run can write decides nothing: runs that write into what they share with their keeper.
//!
//! Each run notes in a file that it has begun. So a program that was started twice, or not at all, shows, whatever its status is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;
use std::time::{Duration, Instant};

use regrow::{Command, Pool, Stdio};

/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a keeper may take to see what a run has left, on a machine that has more to do.
const MOMENT: Duration = Duration::from_millis(200);
/// The status of a process that has refused its order.
const REFUSED: i32 = 125;

/// A pool, and the program that attacks it.
struct Attack {
    dir: tempfile::TempDir,
    pool: Pool,
    begun: std::cell::Cell<usize>,
}

impl Attack {
    fn new() -> Attack {
        let dir = tempfile::tempdir().expect("a directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trust/attack.c");
        let built =
            StdCommand::new("cc").arg("-O1").arg("-o").arg(dir.path().join("attack")).arg(source).status();
        assert!(built.expect("a C compiler").success());
        let attack = Attack { dir, pool: Pool::new(), begun: std::cell::Cell::new(0) };
        attack.pool.prepare(&attack.command(0, &["nothing"])).expect("it can be kept");
        attack
    }

    fn notes(&self) -> PathBuf {
        self.dir.path().join("notes")
    }

    fn command(&self, status: i32, what: &[&str]) -> Command {
        let mut command = self.pool.command(self.dir.path().join("attack"));
        command.arg(self.notes()).arg(status.to_string()).args(what);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
        command
    }

    /// One run, which begins once and has its own status. `awaited`: the caller waits for its start first.
    fn run(&self, awaited: bool, status: i32, what: &[&str]) {
        let mut command = self.command(status, what);
        let ended = if awaited {
            command.spawn().and_then(|mut child| child.wait())
        } else {
            command.output().map(|output| output.status)
        };
        assert_eq!(ended.expect("it starts").code(), Some(status), "{what:?}, awaited: {awaited}");
        self.begun.set(self.begun.get() + 1);
        let notes = fs::read_to_string(self.notes()).expect("notes");
        assert_eq!(notes.lines().count(), self.begun.get(), "{what:?} began once, awaited: {awaited}");
    }

    /// Several runs of each kind, with ones after them that do nothing.
    fn runs(&self, what: &[&str]) {
        for status in [0, REFUSED] {
            for awaited in [false, true] {
                self.run(awaited, status, what);
                self.run(awaited, 0, &["nothing"]);
            }
        }
    }

    /// Runs until so many bodies were given up for a reason. One that nobody has looked at before it was dropped is not counted, so that
    /// after each run its keeper is given a moment.
    fn until_given_up(&self, reason: &str, what: &[&str], times: u64) {
        let until = Instant::now() + LIMIT;
        while self.pool.reports().given_up.get(reason).copied().unwrap_or(0) < times {
            assert!(Instant::now() < until, "{:?} {:?}", self.pool.reports(), self.pool.stats());
            self.run(true, 0, what);
            let moment = Instant::now() + MOMENT;
            let before = self.pool.reports().given_up;
            while self.pool.reports().given_up == before && Instant::now() < moment {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.runs(what);
        }
    }

    /// How many runs had a body. On a busy machine the one that has been put back may not be ready for the next.
    fn in_bodies(&self) -> u64 {
        let stats = self.pool.stats();
        stats.recycled.total() + stats.forked_body.total()
    }
}

/// A child of this process that the pool knows nothing of, and that must not be touched.
struct Stranger(std::process::Child);

impl Stranger {
    fn new() -> Stranger {
        Stranger(StdCommand::new("sleep").arg("600").spawn().expect("it starts"))
    }

    fn is_well(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The words of the control area, in their order.
const WORDS: [&str; 12] = [
    "state", "waiters", "pid", "keeper", "broken", "errno", "verify", "sessions", "fault", "command",
    "purpose", "bell",
];

#[test]
fn no_word_of_the_control_area_has_a_program_begin_twice_or_never() {
    let attack = Attack::new();
    let mut stranger = Stranger::new();
    let foreign = stranger.0.id().to_string();
    for (number, name) in WORDS.iter().enumerate() {
        let offset = (4 * number).to_string();
        let values: &[&str] = match *name {
            "state" | "command" => &["0", "1", "2", "3", "4", "5", "6", "7", "0xffffffff"],
            "pid" | "keeper" => &["0", "1", &foreign, "0xffffffff"],
            "broken" | "fault" => &["1", "2", "3", "4", "5", "12", "13", "0xffffffff"],
            _ => &["0", "1", "2", "0xffffffff"],
        };
        let before = attack.in_bodies();
        for value in values {
            attack.runs(&["word", &offset, value]);
        }
        attack.runs(&["own-pid", &offset]);
        assert!(attack.in_bodies() > before, "{name}: no run was recycled: {:?}", attack.pool.stats());
        assert!(stranger.is_well(), "{name}: a child of nobody's business");
    }
    attack.pool.clear();
    drop(attack);
    assert!(stranger.is_well(), "at the end");
}

#[test]
fn a_control_area_full_of_anything_has_a_program_begin_once() {
    let attack = Attack::new();
    let mut stranger = Stranger::new();
    for byte in 0..=255u8 {
        attack.run(byte % 2 == 0, i32::from(byte % 3), &["fill", &byte.to_string()]);
        attack.run(byte % 2 != 0, REFUSED, &["nothing"]);
    }
    assert!(attack.in_bodies() > 100, "{:?}", attack.pool.stats());
    drop(attack);
    assert!(stranger.is_well());
}

#[test]
fn a_process_that_plays_one_that_waits_for_an_order_gets_none() {
    let attack = Attack::new();
    attack.until_given_up("shared", &["armed-sharer"], 3);
    assert!(attack.in_bodies() > 0, "{:?}", attack.pool.stats());
}

#[test]
fn a_keeper_whose_stack_and_words_are_overwritten_goes_on_or_is_given_up() {
    let attack = Attack::new();
    for byte in [0, 1, 0x42, 0xff] {
        let before = attack.in_bodies();
        attack.runs(&["stack", &byte.to_string()]);
        assert!(attack.in_bodies() >= before + 4, "{byte}: {:?}", attack.pool.stats());
    }
}

#[test]
fn the_agent_and_its_image_cannot_be_changed_or_taken_away() {
    let attack = Attack::new();
    attack.runs(&["agent"]);
    assert!(attack.in_bodies() >= 8, "{:?}", attack.pool.stats());
}

#[test]
fn a_child_of_a_run_has_nothing_of_the_agent_and_costs_no_body() {
    let attack = Attack::new();
    for _ in 0..5 {
        attack.runs(&["child"]);
    }
    let reports = attack.pool.reports();
    assert!(reports.given_up.is_empty(), "{reports:?}");
    assert!(attack.in_bodies() >= 20, "{:?}", attack.pool.stats());
}

#[test]
fn what_waits_for_its_children_costs_no_body() {
    let pool = Pool::new();
    let mut command = pool.command("sh");
    command.args(["-c", "(echo a | cat | cat) && (exit 0) && sh -c 'exit 0'"]).stdout(Stdio::null());
    pool.prepare(&command).expect("it can be kept");
    for _ in 0..50 {
        assert!(command.status().expect("it starts").success());
    }
    let reports = pool.reports();
    assert!(reports.given_up.is_empty(), "{reports:?}");
    assert!(pool.stats().recycled.total() >= 40, "{:?}", pool.stats());
}

#[test]
fn a_run_that_leaves_processes_in_its_group_costs_its_body_whatever_they_execute() {
    let attack = Attack::new();
    let pool = Pool::new();
    attack.run(false, 0, &["nothing"]);
    pool.prepare(pool.command("sh").arg("-c")).expect("it can be kept");
    let until = Instant::now() + LIMIT;
    while pool.reports().given_up.get("left_processes").copied().unwrap_or(0) < 3 {
        assert!(Instant::now() < until, "{:?} {:?}", pool.reports(), pool.stats());
        let mut background = pool.command("sh");
        let script = "sh -c 'while test -e \"$0\"; do sleep 0.02; done' \"$0\" & sleep 0.05";
        background.arg("-c").arg(script).arg(attack.notes()).process_group(0).stdout(Stdio::null());
        assert!(background.status().expect("it starts").success());
    }
    assert!(pool.stats().recycled.total() > 0, "{:?}", pool.stats());
}

#[test]
fn a_run_that_leaves_a_copy_of_itself_costs_its_body() {
    let attack = Attack::new();
    for _ in 0..10 {
        attack.run(false, 0, &["leave"]);
        // Each of them looks whether somebody has written to its memory.
        for _ in 0..5 {
            attack.run(true, 0, &["nothing"]);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    attack.until_given_up("left_processes", &["leave"], 5);
    assert!(attack.in_bodies() > 0, "{:?}", attack.pool.stats());
}
