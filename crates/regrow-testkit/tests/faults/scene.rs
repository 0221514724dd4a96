//! A scene: a test with a process of its own; and what most scenes need.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command as StdCommand, ExitCode, Output, Stdio as StdStdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use regrow::{Creation, Pool, Stdio};
use regrow_testkit::left::Left;

/// The variable that names the scene of a process.
const SCENE: &str = "REGROW_SCENE";
/// How long a scene may take before it is killed.
const SCENE_LIMIT: Duration = Duration::from_secs(240);
/// How many are played at a time: the test is meant for two processors.
const AT_A_TIME: usize = 2;
/// How long what a pool holds may take to go.
pub(crate) const END_LIMIT: Duration = Duration::from_secs(60);
/// The user without rights that some scenes are played as.
const NOBODY: u32 = 65534;

/// As which user a scene is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum As {
    /// The user that runs the tests.
    Caller,
    /// A user without rights.
    Nobody,
    /// The superuser: left out when the tests have another one.
    Root,
}

/// A test with a process of its own.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) user: As,
    pub(crate) act: Box<dyn Fn()>,
}

/// A scene of the user that runs the tests.
pub(crate) fn scene(name: &str, act: impl Fn() + 'static) -> Scene {
    Scene { name: name.to_owned(), user: As::Caller, act: Box::new(act) }
}

impl Scene {
    /// The same scene, played as another user.
    pub(crate) fn by(self, user: As) -> Scene {
        Scene { user, ..self }
    }
}

/// Plays the scene that this process is for, or all of those whose names contain the first argument.
pub(crate) fn play(scenes: &[Scene]) -> ExitCode {
    if let Ok(name) = std::env::var(SCENE) {
        return scenes.iter().find(|scene| scene.name == name).map_or(ExitCode::FAILURE, play_here);
    }
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let own = OwnCopy::make();
    let is_playable = |scene: &&Scene| scene.user != As::Root || is_root();
    let (playable, left_out): (Vec<&Scene>, Vec<&Scene>) =
        scenes.iter().filter(|scene| scene.name.contains(&wanted)).partition(is_playable);
    for scene in left_out {
        println!("scene {} ... left out: it needs root", scene.name);
    }
    let parts: Vec<Part> =
        playable.iter().map(|scene| Part { name: &scene.name, user: scene.user }).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(part) = parts.get(next.fetch_add(1, Relaxed)) {
                    let ending = match play_apart(part, &own) {
                        Ok(()) => "ok".to_owned(),
                        Err(what) => {
                            failed.fetch_add(1, Relaxed);
                            format!("FAILED\n{what}")
                        }
                    };
                    println!("scene {} ... {ending}", part.name);
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{} scenes, {failed} failed", parts.len());
    if failed == 0 && !parts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A scene, as the process that starts it sees it.
struct Part<'a> {
    name: &'a str,
    user: As,
}

fn play_here(scene: &Scene) -> ExitCode {
    match catch_unwind(AssertUnwindSafe(|| (scene.act)())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// This program where a user without rights can run it.
pub(crate) struct OwnCopy {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl OwnCopy {
    fn make() -> OwnCopy {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let path = dir.path().join("faults");
        fs::copy(std::env::current_exe().expect("this program"), &path).expect("there is room");
        OwnCopy { path, _dir: dir }
    }
}

fn play_apart(scene: &Part<'_>, own: &OwnCopy) -> Result<(), String> {
    let mut command = StdCommand::new(&own.path);
    command.env(SCENE, scene.name).current_dir("/").process_group(0);
    command.stdin(StdStdio::null()).stdout(StdStdio::piped()).stderr(StdStdio::piped());
    if scene.user == As::Nobody && is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let group = rustix::process::Pid::from_raw(child.id().cast_signed());
    let deadline = Instant::now() + SCENE_LIMIT;
    let mut ended = false;
    while !ended && Instant::now() < deadline {
        ended = child.try_wait().map_err(|error| error.to_string())?.is_some();
        std::thread::sleep(Duration::from_millis(2));
    }
    // Also what a failed scene has left in its group, which holds its output open.
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() && ended {
        return Ok(());
    }
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let how = if ended { output.status.to_string() } else { format!("it took longer than {SCENE_LIMIT:?}") };
    Err(format!("{how}\n{text}"))
}

/// Whether the tests have all rights.
pub(crate) fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// What a scene's run is to give.
pub(crate) const STATUS: i32 = 7;

/// Runs `sh` once, checks what it gives, and says how it was made.
pub(crate) fn run_right(pool: &Pool, word: &str) -> Creation {
    let mut command = pool.command("sh");
    command.args(["-c", "printf '%s.' \"$1\"; exit 7", "sh", word]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap_or_else(|error| panic!("{word}: {error}"));
    let creation = child.creation().clone();
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("{word}, {creation}: {error}"));
    assert_right(&output, word, &creation);
    creation
}

/// Whether an output is that of [`run_right`].
pub(crate) fn assert_right(output: &Output, word: &str, creation: &Creation) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        (text.as_ref(), output.status.code()),
        (format!("{word}.").as_str(), Some(STATUS)),
        "{creation}: {output:?}"
    );
    assert_eq!(output.status.signal(), None);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{creation}");
}

/// Makes the image of `sh` ahead.
pub(crate) fn prepare_sh(pool: &Pool) {
    let mut command = pool.command("sh");
    pool.prepare(command.arg("-c")).expect("sh can be kept");
}

/// Plays with a pool and sees that nothing is left when it is gone.
pub(crate) fn with_pool(pool: Pool, play: impl FnOnce(&Pool)) {
    let _ = fs::File::open("/dev/null").expect("the first descriptor");
    // The pool of the caller is made before this looks; what it holds is counted with what it makes.
    let before = Left::now().expect("/proc is there");
    let held = pool_descriptors(&before);
    play(&pool);
    drop(pool);
    let before = Left { descriptors: held, ..before };
    assert_eq!(before.beside(END_LIMIT).expect("/proc is there"), None, "is left of the pool");
}

/// The descriptors without those that a pool holds from its start.
fn pool_descriptors(left: &Left) -> Vec<String> {
    let is_pools = |name: &String| name.contains("inotify") || name.contains("regrow");
    left.descriptors.iter().filter(|name| !is_pools(name)).cloned().collect()
}

/// Checks that every run by exec has found all bodies busy: how many did depends on what else the machine does.
pub(crate) fn assert_no_reason_but_busy(pool: &Pool) {
    let stats = pool.stats();
    let busy = stats.fallbacks.get("all_busy").copied().unwrap_or(0);
    assert_eq!(stats.exec, busy, "{stats:?}");
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + END_LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a process by its number.
pub(crate) fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a number of a process");
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Whether a process is there and not merely waiting to be waited for.
pub(crate) fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|parts| !parts.1.trim_start().starts_with(['Z', 'X']))
}
