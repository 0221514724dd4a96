//! A caller that changes between two runs: each run is what exec would have made at that moment.

#![allow(unsafe_code, reason = "signal dispositions and user ids, which no safe interface sets")]

use std::process::Command as StdCommand;

use regrow::{Pool, Stdio};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::scene::{As, Scene, assert_no_reason_but_busy, prepare_sh, run_right, scene, with_pool};

/// What a run reports of what it has from its caller.
const SCRIPT: &str = "umask; pwd; ulimit -n; ulimit -c; ulimit -f; id -u; id -g; \
    read a b c d group session rest </proc/self/stat; echo $group $session; \
    while read name value; do case $name in Uid:|Gid:|Groups:|SigPnd:|ShdPnd:|SigBlk:|SigIgn:|SigCgt:|Cap*:|NoNewPrivs:|Seccomp:|Cpus_allowed:) \
    echo $name $value;; esac; done </proc/self/status; readlink /proc/self/root; \
    set -- $(cat /proc/self/stat); echo nice ${19}; cat /proc/self/timerslack_ns";

pub(crate) fn scenes() -> Vec<Scene> {
    let of = |name: &str, act: fn(&Pool)| scene(name, move || with_pool(Pool::new(), act));
    vec![
        of("caller-changes-nothing", |pool| changed(pool, false, || {})),
        of("caller-changes-its-mask", |pool| {
            changed(pool, false, || {
                rustix::process::umask(rustix::fs::Mode::from(0o027));
            });
        }),
        of("caller-changes-its-directory", |pool| {
            changed(pool, false, || rustix::process::chdir("/usr").expect("it is there"));
        }),
        of("caller-changes-a-limit", |pool| changed(pool, true, || limit(Resource::Nofile, 300))),
        of("caller-changes-the-stack-limit", |pool| changed(pool, true, || limit(Resource::Stack, 4 << 20))),
        of("caller-changes-limits", |pool| {
            changed(pool, true, || {
                limit(Resource::Core, 0);
                limit(Resource::Fsize, 1 << 30);
                limit(Resource::Nofile, 200);
            });
        }),
        of("caller-ignores-signals", |pool| {
            changed(pool, true, || disposition(libc::SIGUSR1, libc::SIG_IGN));
        }),
        of("caller-heeds-signals-again", heeds_again),
        of("caller-blocks-signals", |pool| changed(pool, false, || block(libc::SIGUSR2))),
        of("caller-changes-its-group", |pool| changed(pool, true, leave_group)),
        of("caller-changes-its-session", |pool| {
            // The leader of a group, which a scene is, cannot leave its session.
            leave_group();
            changed(pool, true, || {
                rustix::process::setsid().expect("it leads no group");
            });
        }),
        of("caller-becomes-nicer", |pool| {
            changed(pool, true, || rustix::process::setpriority_process(None, 7).expect("upwards"));
        }),
        of("caller-changes-its-processors", |pool| changed(pool, true, one_processor)),
        of("caller-gives-up-new-rights", |pool| {
            changed(pool, true, || rustix::thread::set_no_new_privs(true).expect("it is always allowed"));
        }),
        of("caller-changes-and-waits", |pool| {
            changed(pool, false, || {
                limit(Resource::Nofile, 250);
                disposition(libc::SIGUSR2, libc::SIG_IGN);
                // The engine looks at the rest when its last look is 10 ms old.
                std::thread::sleep(std::time::Duration::from_millis(15));
            });
        }),
        of("caller-changes-as-soon-as-a-run-is-started", changes_at_once),
        of("caller-gives-up-a-capability", |pool| changed(pool, true, give_up_capability)).by(As::Root),
        of("caller-changes-its-user", |pool| changed(pool, false, become_nobody)).by(As::Root),
        of("caller-changes-its-groups", |pool| {
            changed(pool, true, || {
                // SAFETY: one live number.
                assert_eq!(unsafe { libc::setgroups(1, &raw const GROUP) }, 0);
            });
        })
        .by(As::Root),
        of("caller-changes-its-root", |pool| changed(pool, true, change_root)).by(As::Root),
        of("caller-changes-its-namespace", |pool| changed(pool, true, change_namespace)).by(As::Root),
    ]
}

static GROUP: libc::gid_t = 12345;

fn said_by_run(pool: &Pool) -> (String, String) {
    let mut command = pool.command("/bin/sh");
    let child = command
        .args(["-c", SCRIPT])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let child = child.expect("it starts");
    let creation = child.creation().to_string();
    (String::from_utf8_lossy(&child.wait_with_output().expect("its end").stdout).into_owned(), creation)
}

/// Runs before and after a change report what plain runs report. `refresh`: the caller tells the pool of the change, as
/// the documentation asks for what the engine does not read at every run.
fn changed(pool: &Pool, refresh: bool, change: impl FnOnce()) {
    let mut first = pool.command("/bin/sh");
    pool.prepare(first.arg("-c")).expect("sh can be kept");
    // Not the standard library's: its posix_spawn ignores two signals that are the C library's own.
    let plain = Pool::builder().recycle(false).build();
    let same = |when: &str| {
        let (wanted, _) = said_by_run(&plain);
        for run in 0..3 {
            let (said, creation) = said_by_run(pool);
            let differing: Vec<_> =
                said.lines().zip(wanted.lines()).filter(|lines| lines.0 != lines.1).collect();
            assert_eq!(differing, [], "{when} the change, run {run}, {creation}");
            assert_eq!(said, wanted);
        }
    };
    same("before");
    change();
    if refresh {
        pool.refresh();
    }
    same("after");
}

/// A change does not reach a run that was started before it.
fn changes_at_once(pool: &Pool) {
    let scratch = tempfile::tempdir().expect("a directory");
    let places = ["one", "two"].map(|name| scratch.path().canonicalize().expect("it is there").join(name));
    let masks = ["0022", "0057"];
    places.iter().for_each(|place| std::fs::create_dir(place).expect("it is ours"));
    prepare_sh(pool);
    let become_like = |number: usize| {
        rustix::process::chdir(&places[number]).expect("it is there");
        let mask = u32::from_str_radix(masks[number], 8).expect("octal");
        rustix::process::umask(rustix::fs::Mode::from_bits_retain(mask));
    };
    become_like(0);
    for run in 0..200 {
        let mut command = pool.command("sh");
        let child = command.args(["-c", "umask; pwd -P"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        become_like((run + 1) % 2);
        let child = child.expect("it starts");
        let creation = child.creation().clone();
        let said = child.wait_with_output().expect("its end").stdout;
        let wanted = format!("{}\n{}\n", masks[run % 2], places[run % 2].display());
        assert_eq!(String::from_utf8_lossy(&said), wanted, "run {run}, {creation}");
    }
    rustix::process::chdir("/").expect("it is there");
    assert!(pool.stats().recycled.total() > 0, "{:?}", pool.stats());
    assert_no_reason_but_busy(pool);
}

fn limit(resource: Resource, soft: u64) {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(soft), maximum }).expect("it is below the hard limit");
}

fn disposition(signal: i32, disposition: libc::sighandler_t) {
    // SAFETY: a disposition that is no function.
    unsafe { libc::signal(signal, disposition) };
}

fn heeds_again(pool: &Pool) {
    disposition(libc::SIGUSR1, libc::SIG_IGN);
    changed(pool, true, || disposition(libc::SIGUSR1, libc::SIG_DFL));
}

fn block(signal: i32) {
    // SAFETY: a set of signals on the stack, emptied before it is used.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// A scene leads its group: it joins the group of a child of its own.
fn leave_group() {
    use std::os::unix::process::CommandExt;
    let mut other = StdCommand::new("sleep").arg("20").process_group(0).spawn().expect("it starts");
    let group = rustix::process::Pid::from_raw(other.id().cast_signed());
    rustix::process::setpgid(None, group).expect("it is in the session");
    other.kill().expect("it is ours");
    other.wait().expect("it is ours");
}

fn one_processor() {
    let mut cpus = rustix::thread::sched_getaffinity(None).expect("it can be read");
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| cpus.is_set(cpu)).expect("there is one");
    cpus.clear();
    cpus.set(first);
    rustix::thread::sched_setaffinity(None, &cpus).expect("it is one of ours");
}

fn become_nobody() {
    // SAFETY: numbers.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(65534, 65534, 65534), 0);
        assert_eq!(libc::setresuid(65534, 65534, 65534), 0);
    }
}

fn give_up_capability() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).expect("one's own");
    sets.effective.remove(CapabilitySet::NET_RAW);
    sets.permitted.remove(CapabilitySet::NET_RAW);
    set_capabilities(None, sets).expect("downwards");
}

/// A root directory that has the same files, but is another one.
fn change_root() {
    rustix::process::chroot("/proc/self/root/proc/1/root")
        .or_else(|_| rustix::process::chroot("/"))
        .expect("as root");
    rustix::process::chdir("/").expect("it is there");
}

fn change_namespace() {
    // SAFETY: a namespace of names: no memory, descriptor or thread of this process is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUTS) }.expect("as root");
    let name = std::fs::read_link("/proc/self/ns/uts").expect("/proc is there");
    let output = StdCommand::new("readlink").arg("/proc/self/ns/uts").output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), name.to_string_lossy());
    let pool = Pool::new();
    prepare_sh(&pool);
    run_right(&pool, "in-the-namespace");
}
