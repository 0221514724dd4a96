//! Mounts over what an image was made of: the next run is of the file that the name leads to then.

#![allow(unsafe_code, reason = "mounts and their namespace, which no safe interface changes")]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command as StdCommand;

use regrow::{Pool, Stdio};

use crate::scene::{As, Scene, scene, with_pool};

/// How often each mount is made and taken away.
const ROUNDS: usize = 10;

pub(crate) fn scenes() -> Vec<Scene> {
    let of = |name: &str, act: fn(&Pool, &Path)| {
        scene(name, move || {
            own_mounts();
            let dir = tempfile::tempdir().expect("a directory");
            with_pool(Pool::new(), |pool| act(pool, dir.path()));
        })
        .by(As::Root)
    };
    vec![
        of("mount-over-a-program", over_a_program),
        of("mount-over-the-folder-of-a-program", over_a_folder),
        of("mount-over-a-library", over_a_library),
        of("mount-that-forbids-execution", without_execution),
    ]
}

/// Gives this process mounts of its own.
fn own_mounts() {
    // SAFETY: a namespace of mounts: no memory, descriptor or thread of this process is touched.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.expect("as root");
    mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE);
}

fn mount(from: Option<&Path>, at: &Path, flags: libc::c_ulong) {
    let c_string = |path: &Path| CString::new(path.as_os_str().as_bytes()).expect("no NUL is in it");
    let (from, at) = (from.map(c_string), c_string(at));
    let from = from.as_ref().map_or(std::ptr::null(), |from| from.as_ptr());
    // SAFETY: strings that end in NUL, or none.
    let result = unsafe { libc::mount(from, at.as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
    assert_eq!(result, 0, "{at:?}: {}", std::io::Error::last_os_error());
}

/// A kept program holds its file: what is unmounted goes when the last of its users does.
fn unmount(at: &Path) {
    let at = CString::new(at.as_os_str().as_bytes()).expect("no NUL is in it");
    // SAFETY: a string that ends in NUL.
    let result = unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) };
    assert_eq!(result, 0, "{at:?}: {}", std::io::Error::last_os_error());
}

/// The status of a run.
fn status(pool: &Pool, program: &Path) -> Option<i32> {
    let mut command = pool.command(program);
    command.stdin(Stdio::null()).status().ok().and_then(|status| status.code())
}

fn prepare(pool: &Pool, program: &Path) {
    pool.prepare(&pool.command(program)).expect("it can be kept");
}

/// Has runs see each mount and its end. Each image is made at once: the mount falls upon one that is in use.
fn mounted_and_not(pool: &Pool, program: &Path, from: &Path, at: &Path) {
    for round in 0..ROUNDS {
        prepare(pool, program);
        assert_eq!(status(pool, program), Some(0), "round {round}, before");
        mount(Some(from), at, libc::MS_BIND);
        assert_eq!(status(pool, program), Some(1), "round {round}, just mounted");
        prepare(pool, program);
        assert_eq!(status(pool, program), Some(1), "round {round}, mounted");
        unmount(at);
        assert_eq!(status(pool, program), Some(0), "round {round}, just unmounted");
    }
    assert!(pool.stats().recycled.total() >= 2 * ROUNDS as u64, "{:?}", pool.stats());
}

fn over_a_program(pool: &Pool, dir: &Path) {
    let (program, other) = (dir.join("program"), dir.join("other"));
    fs::copy("/bin/true", &program).expect("copied");
    fs::copy("/bin/false", &other).expect("copied");
    mounted_and_not(pool, &program, &other, &program);
}

fn over_a_folder(pool: &Pool, dir: &Path) {
    let [here, there] = ["here", "there"].map(|name| dir.join(name).join("deep"));
    fs::create_dir_all(&here).expect("made");
    fs::create_dir_all(&there).expect("made");
    fs::copy("/bin/true", here.join("program")).expect("copied");
    fs::copy("/bin/false", there.join("program")).expect("copied");
    mounted_and_not(pool, &here.join("program"), &dir.join("there"), &dir.join("here"));
}

fn over_a_library(pool: &Pool, dir: &Path) {
    let compile = |name: &str, text: &str, arguments: &[&str]| {
        let source = dir.join(format!("{name}.c"));
        fs::write(&source, text).expect("written");
        let mut compiler = StdCommand::new("cc");
        compiler.current_dir(dir).arg("-o").arg(name).arg(&source).args(arguments);
        assert!(compiler.status().expect("a C compiler").success());
    };
    compile("libanswer.so", "int answer(void) { return 0; }", &["-shared", "-fPIC"]);
    compile("other.so", "int answer(void) { return 1; }", &["-shared", "-fPIC"]);
    let linked = ["-L.", "-lanswer", "-Wl,-rpath,$ORIGIN"];
    compile("program", "int answer(void); int main(void) { return answer(); }", &linked);
    mounted_and_not(pool, &dir.join("program"), &dir.join("other.so"), &dir.join("libanswer.so"));
}

fn without_execution(pool: &Pool, dir: &Path) {
    let program = dir.join("program");
    fs::copy("/bin/true", &program).expect("copied");
    mount(Some(dir), dir, libc::MS_BIND);
    prepare(pool, &program);
    assert_eq!(status(pool, &program), Some(0));
    mount(None, dir, libc::MS_REMOUNT | libc::MS_BIND | libc::MS_NOEXEC);
    assert_eq!(status(pool, &program), None, "as exec finds it");
    mount(None, dir, libc::MS_REMOUNT | libc::MS_BIND);
    prepare(pool, &program);
    assert_eq!(status(pool, &program), Some(0));
    assert_eq!(pool.stats().recycled.total(), 2, "{:?}", pool.stats());
    unmount(dir);
}
