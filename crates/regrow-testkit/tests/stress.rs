//! Threads that use one pool at once as programs do: each run has descriptors, a directory, a mask, input, or is killed or waited for late, and
//! programs are replaced between their runs. Each run is checked: nothing is stale, nothing is another's, and nothing is left.
//!
//! `REGROW_STRESS_RUNS=110000` sets how many runs there are.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use regrow::{Child, Command, Pool, Stdio};
use regrow_testkit::left::Left;
use regrow_testkit::summary::{self, Percent};

/// Runs of an ordinary test.
const RUNS: usize = 3_000;
/// Threads that start them.
const THREADS: usize = 6;
/// Of a hundred runs at least so many are recycled: replaced programs, and those that find all bodies busy, are not.
const LEAST_RECYCLED_PERCENT: usize = 40;
/// How long what the pool holds may take to go.
const END_LIMIT: Duration = Duration::from_secs(60);

/// One thread's use of the pool.
struct User<'a> {
    pool: &'a Pool,
    folder: &'a Path,
    thread: usize,
    recycled: &'a AtomicUsize,
    /// Runs that are waited for at the end.
    forgotten: &'a Mutex<Vec<Child>>,
}

impl User<'_> {
    fn run(&self, number: usize) {
        match number % 7 {
            0 => self.with_descriptors(number),
            1 => self.with_attributes(number),
            2 => self.replaced(number),
            3 => self.with_input(number),
            4 => self.killed(),
            5 => self.replaced_script(number),
            _ => self.with_status(number),
        }
    }

    fn start(&self, command: &mut Command) -> Child {
        let child = command.spawn().expect("it starts");
        self.recycled.fetch_add(usize::from(child.creation().is_recycled()), Ordering::Relaxed);
        child
    }

    fn output(&self, command: &mut Command) -> String {
        let child = self.start(command.stdout(Stdio::piped()));
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{command:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn sh(&self, script: &str) -> Command {
        let mut command = self.pool.command("sh");
        command.args(["-c", script]);
        command
    }

    /// A pipe of its own for each of some numbers, and no other descriptor than the standard ones and the one that the shell looks with.
    fn with_descriptors(&self, number: usize) {
        let mut command =
            self.sh("for n in 4 7 9; do read line <&$n; echo $line; done; set -- /proc/$$/fd/*; echo $#");
        let mut expected = String::new();
        for fd in [4, 7, 9] {
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let word = format!("{}-{number}-{fd}", self.thread);
            writeln!(writer, "{word}").expect("it has room");
            command.fd(reader, fd);
            expected += &format!("{word}\n");
        }
        assert_eq!(self.output(&mut command), expected + "7\n");
    }

    fn with_attributes(&self, number: usize) {
        let directory = self.folder.join(format!("directory-{}", self.thread));
        fs::create_dir_all(&directory).expect("a folder");
        let mut command = self.sh("echo $WORD; umask; pwd; ulimit -n");
        command.env("WORD", number.to_string()).umask(0o27).current_dir(&directory);
        command.limit(regrow::Resource::Nofile, 100 + number as u64 % 50, 200);
        let expected = format!("{number}\n0027\n{}\n{}\n", directory.display(), 100 + number % 50);
        assert_eq!(self.output(&mut command), expected);
    }

    /// A program that another one takes the place of is never run as it was.
    fn replaced(&self, number: usize) {
        let program = self.folder.join(format!("program-{}", self.thread));
        let is_true = number / 7 % 4 < 2;
        let new = program.with_extension("new");
        // Written by another process: a child of another thread would have the file open for writing.
        let from = if is_true { "/bin/true" } else { "/bin/false" };
        let copied = std::process::Command::new("cp").arg(from).arg(&new).status();
        assert!(copied.expect("cp starts").success());
        fs::rename(&new, &program).expect("it takes the name");
        for _ in 0..3 {
            let status = self.start(&mut self.pool.command(&program)).wait().expect("its end");
            assert_eq!(status.success(), is_true, "{number}: {status}");
        }
    }

    fn replaced_script(&self, number: usize) {
        let script = self.folder.join(format!("script-{}", self.thread));
        let new = script.with_extension("new");
        let text = format!("#!/bin/sh\necho {number}\n");
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-c", "printf %s \"$1\" >\"$2\"", "sh", &text]).arg(&new);
        assert!(command.status().expect("sh starts").success());
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("executable");
        fs::rename(&new, &script).expect("it takes the name");
        for _ in 0..2 {
            assert_eq!(self.output(&mut self.pool.command(&script)), format!("{number}\n"));
        }
    }

    fn with_input(&self, number: usize) {
        let text: String = (0..20_000).map(|line| format!("{} {number} {line}\n", self.thread)).collect();
        let mut command = self.pool.command("cat");
        let mut child = self.start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
        let (mut to, mut from) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut back = String::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                to.write_all(text.as_bytes()).expect("cat reads");
                drop(to);
            });
            from.read_to_string(&mut back).expect("text");
        });
        assert!(back == text, "{number}: {} of {} bytes", back.len(), text.len());
        assert!(child.wait().expect("its end").success());
    }

    /// One that is killed, and one that is waited for when all others have ended.
    fn killed(&self) {
        let mut child = self.start(self.pool.command("sleep").arg("600"));
        child.kill().expect("it lives");
        assert!(!child.wait().expect("its end").success());
        let late = self.start(&mut self.pool.command("true"));
        self.forgotten.lock().expect("no thread has panicked").push(late);
    }

    fn with_status(&self, number: usize) {
        let wanted = i32::try_from(number % 250).expect("it fits");
        let status = self.start(&mut self.sh(&format!("exit {wanted}"))).wait().expect("its end");
        assert_eq!(status.code(), Some(wanted));
    }
}

#[test]
fn threads_that_use_a_pool_at_once_get_their_own_runs() {
    let all = std::env::var("REGROW_STRESS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let before = Left::now().expect("/proc is there");
    let folder = tempfile::tempdir().expect("temporary directory");
    let pool = Pool::new();
    let (next, recycled, forgotten) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::default());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let user = User {
                pool: &pool,
                folder: folder.path(),
                thread,
                recycled: &recycled,
                forgotten: &forgotten,
            };
            let next = &next;
            scope.spawn(move || {
                while let Some(number) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < all)
                {
                    user.run(number);
                }
            });
        }
    });
    for mut child in forgotten.into_inner().expect("no thread has panicked") {
        assert!(child.wait().expect("its end").success());
    }
    let stats = pool.stats();
    println!("{stats:?}");
    let started = usize::try_from(stats.total()).expect("it fits");
    let recycled = Percent { part: recycled.into_inner(), whole: started };
    let line =
        format!("stress: {started} runs of {THREADS} threads at once, each checked, {recycled} recycled");
    summary::add(&line).expect("the summary can be written");
    assert!(recycled.part * 100 >= started * LEAST_RECYCLED_PERCENT, "{line}: {stats:?}");
    drop(pool);
    assert_eq!(before.beside(END_LIMIT).expect("/proc is there"), None, "is left of the pool");
}
