//! Single use: a body serves one run. What a run does to its memory reaches no other run, whatever it is.

#[path = "common/elsewhere.rs"]
mod elsewhere;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command as StdCommand;
use std::time::{Duration, Instant};

use regrow::{Command, Creation, Pool, Reuse, Stdio};

/// How long something may take that is going to happen.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that shows what an earlier run has left in its memory, and leaves something there.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char mark[4096];
int main(int argc, char **argv) {
    int seen = mark[100];
    strcpy(mark + 100, "left");
    if (argc > 1 && !strcmp(argv[1], "accomplice")) {
        /* Writes into the memory of its parent for as long as that is there, whoever runs in it. */
        int memory = open("/proc/self/mem", O_RDWR);
        if (memory < 0) return 3;
        int ready[2];
        if (pipe(ready)) return 3;
        if (fork() == 0) {
            setsid();
            close(1);
            for (int i = 0; i < 3000 && access(argv[2], F_OK); i++) {
                pwrite(memory, "evil", 4, (off_t)(mark + 100));
                if (i == 0) write(ready[1], "x", 1);
                usleep(500);
            }
            _exit(0);
        }
        char byte;
        if (read(ready[0], &byte, 1) != 1) return 3;
    }
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        for (int i = 0; i < 200 && !mark[200]; i++) usleep(100);
        seen = seen ? seen : (mark[100] != 'l');
    }
    printf("%s", seen ? "dirty" : "clean");
    return 0;
}
"#;

struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    fn new() -> Lab {
        let dir = tempfile::tempdir().expect("a directory");
        let source = dir.path().join("program.c");
        fs::write(&source, PROGRAM).expect("written");
        let built =
            StdCommand::new("cc").arg("-O1").arg("-o").arg(dir.path().join("program")).arg(source).status();
        assert!(built.expect("a C compiler").success());
        Lab { dir }
    }

    fn command(&self, pool: &Pool, args: &[&str]) -> Command {
        let mut command = pool.command(self.dir.path().join("program"));
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command
    }

    fn stop_file(&self) -> String {
        self.dir.path().join("stop").to_string_lossy().into_owned()
    }

    /// Runs once. Gives what it saw, and how it was made.
    fn run(&self, pool: &Pool, args: &[&str]) -> (String, Creation) {
        let child = self.command(pool, args).spawn().expect("it starts");
        let creation = child.creation().clone();
        let output = child.wait_with_output().expect("its end");
        assert!(output.status.success(), "{args:?}, {creation}: {output:?}");
        (String::from_utf8_lossy(&output.stdout).into_owned(), creation)
    }
}

fn single_use() -> Pool {
    Pool::builder().reuse(Reuse::Never).build()
}

/// Until a body that nobody has used waits for a run.
fn wait_for_stock(pool: &Pool, lab: &Lab) {
    let until = Instant::now() + LIMIT;
    while !lab.run(pool, &[]).1.is_recycled() {
        assert!(Instant::now() < until, "{:?}", pool.stats());
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_body_serves_two_runs() {
    let (lab, pool) = (Lab::new(), single_use());
    pool.prepare(&lab.command(&pool, &[])).expect("it can be kept");
    let mut keepers = HashSet::new();
    let mut ready = 0;
    for round in 0..60 {
        // A run that goes on is looked at from outside: which of the pool's keepers has its memory.
        let mut child = lab.command(&pool, &["wait"]).spawn().expect("it starts");
        let run = i32::try_from(child.id()).expect("a number");
        let shares = |keeper: &i32| regrow_sys::raw::share_memory(*keeper, run) == Some(true);
        let keeper = pool.keepers().into_iter().find(shares);
        if let Some(keeper) = keeper {
            let stat = fs::read_to_string(format!("/proc/{keeper}/stat")).expect("it is a child");
            let began = stat.rsplit(' ').nth(52 - 22).map(ToOwned::to_owned);
            assert!(keepers.insert((keeper, began)), "{keeper} in round {round} had a run before");
        }
        ready += u32::from(child.creation().is_recycled());
        assert!(!matches!(child.creation(), Creation::Exec { .. }), "{}", child.creation());
        assert!(child.wait().expect("its end").success());
        std::thread::sleep(Duration::from_millis(3));
    }
    assert!(keepers.len() >= 50 && ready >= 40, "{} keepers, {ready} ready", keepers.len());
}

#[test]
fn what_a_run_leaves_in_its_memory_is_not_there_for_the_next_though_nothing_is_put_back() {
    let lab = Lab::new();
    for pool in [single_use(), Pool::new()] {
        pool.prepare(&lab.command(&pool, &[])).expect("it can be kept");
        wait_for_stock(&pool, &lab);
        let mut not_by_exec = 0;
        for _ in 0..200 {
            let (seen, creation) = lab.run(&pool, &[]);
            assert_eq!(seen, "clean", "{creation}");
            not_by_exec += u32::from(!matches!(creation, Creation::Exec { .. }));
        }
        assert!(not_by_exec >= 195, "{:?}", pool.stats());
    }
}

#[test]
fn who_writes_into_a_body_from_outside_reaches_no_later_run() {
    let (lab, pool) = (Lab::new(), single_use());
    pool.prepare(&lab.command(&pool, &[])).expect("it can be kept");
    let stop = lab.stop_file();
    for _ in 0..4 {
        lab.run(&pool, &["accomplice", &stop]);
    }
    let mut not_by_exec = 0;
    for _ in 0..40 {
        let (seen, creation) = lab.run(&pool, &["wait"]);
        assert_eq!(seen, "clean", "{creation}");
        not_by_exec += u32::from(!matches!(creation, Creation::Exec { .. }));
    }
    fs::write(stop, "").expect("written");
    assert!(not_by_exec >= 38, "{:?}", pool.stats());
}

#[test]
fn one_run_of_an_ordinary_pool_has_its_body_alone() {
    let (lab, pool) = (Lab::new(), Pool::new());
    pool.prepare(&lab.command(&pool, &[])).expect("it can be kept");
    for _ in 0..20 {
        lab.run(&pool, &[]);
        let mut alone = lab.command(&pool, &["wait"]);
        let mut child = alone.single_use(true).spawn().expect("it starts");
        let run = i32::try_from(child.id()).expect("a number");
        let shares = |keeper: &i32| regrow_sys::raw::share_memory(*keeper, run) == Some(true);
        let keeper = pool.keepers().into_iter().find(shares);
        assert!(!matches!(child.creation(), Creation::Exec { .. }), "{}", child.creation());
        assert!(child.wait().expect("its end").success());
        let until = Instant::now() + LIMIT;
        while keeper.is_some_and(|keeper| pool.keepers().contains(&keeper)) {
            assert!(Instant::now() < until, "{keeper:?} is kept");
            lab.run(&pool, &[]);
        }
    }
    assert!(pool.stats().recycled.total() >= 15, "{:?}", pool.stats());
}

#[test]
fn two_scripts_share_a_body_unless_they_are_told_not_to() {
    let lab = Lab::new();
    let scripts = ["one.pl", "two.pl"].map(|name| {
        let path = lab.dir.path().join(name);
        elsewhere::write(&path, "#!/usr/bin/perl\nselect undef, undef, undef, 0.01;\n");
        path
    });
    let of_both = |pool: &Pool| {
        let keepers: Vec<HashSet<i32>> = scripts.iter().map(|script| keepers_of(pool, script, 10)).collect();
        keepers[0].intersection(&keepers[1]).count()
    };
    assert!(of_both(&Pool::new()) > 0, "the test sees what they share");
    assert_eq!(of_both(&Pool::builder().reuse(Reuse::Script).build()), 0);
}

/// The keepers whose memory so many runs had.
fn keepers_of(pool: &Pool, program: &Path, runs: usize) -> HashSet<i32> {
    let mut command = pool.command(program);
    command.stdin(Stdio::null());
    pool.prepare(&command).expect("it can be kept");
    let mut keepers = HashSet::new();
    let mut seen = 0;
    let until = Instant::now() + LIMIT;
    while seen < runs {
        assert!(Instant::now() < until, "{:?}", pool.stats());
        let mut child = command.spawn().expect("it starts");
        let run = i32::try_from(child.id()).expect("a number");
        let shares = |keeper: &i32| regrow_sys::raw::share_memory(*keeper, run) == Some(true);
        let keeper = pool.keepers().into_iter().find(shares);
        assert!(child.wait().expect("its end").success());
        seen += usize::from(keeper.is_some());
        keepers.extend(keeper);
    }
    keepers
}

#[test]
fn runs_that_use_bodies_up_leave_nothing_behind() {
    let lab = Lab::new();
    let descriptors = || fs::read_dir("/proc/self/fd").expect("/proc is there").count();
    let before = descriptors();
    {
        let pool = single_use();
        pool.prepare(&lab.command(&pool, &[])).expect("it can be kept");
        for _ in 0..300 {
            lab.run(&pool, &[]);
        }
        assert!(pool.keepers().len() <= 12, "{:?}", pool.keepers());
        let children: Vec<_> =
            (0..12).map(|_| lab.command(&pool, &["wait"]).spawn().expect("it starts")).collect();
        for mut child in children {
            assert!(!matches!(child.creation(), Creation::Exec { .. }), "{}", child.creation());
            assert!(child.wait().expect("its end").success());
        }
    }
    let until = Instant::now() + LIMIT;
    while descriptors() > before {
        assert!(Instant::now() < until, "{} descriptors, {before} before", descriptors());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(Path::new("/proc/self").exists());
}
