//! What people use: other coroutines, tasks, threads.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use regrow_sys::raw::{futex_wait, futex_wake};

use super::contest::{each_ns, wrong};
use super::native::Contexts;
use crate::error::BenchError;
use crate::figure::Figure;

/// Programs in other languages, each with what makes it, of which the last word but one stands before the program's path. They print nanoseconds for
/// each switch.
const PROGRAMS: [(&str, &str, &str, &[&str]); 2] = [
    ("Go goroutines", "goroutines.go", include_str!("goroutines.go"), &["go", "build", "-o"]),
    ("Boost.Context", "boost.cpp", include_str!("boost.cpp"), &["g++", "-O2", "-lboost_context", "-o"]),
];

pub(super) fn of_generator(count: usize) -> Result<f64, BenchError> {
    let mut other = generator::Gn::<usize>::new_scoped(|mut scope| {
        let mut number = 0;
        loop {
            number = scope.yield_(number + 1).unwrap_or(0);
        }
    });
    other.resume();
    let mut number = 0;
    let begun = Instant::now();
    for _ in 0..count {
        number = other.send(number);
    }
    let time = each_ns(begun, 2 * count);
    if number == count { Ok(time) } else { Err(wrong("generator-rs")) }
}

pub(super) fn of_ucontext(count: usize) -> Result<f64, BenchError> {
    let mut contexts = Contexts::new()?;
    let mut number = 0;
    let begun = Instant::now();
    for _ in 0..count {
        number = contexts.there_and_back(number);
    }
    let time = each_ns(begun, 2 * count);
    if number == count { Ok(time) } else { Err(wrong("ucontext")) }
}

fn tokio() -> Result<tokio::runtime::Runtime, BenchError> {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(BenchError::system("there is no tokio runtime"))
}

/// Two tasks that give way to one another.
pub(super) fn of_tokio(count: usize) -> Result<f64, BenchError> {
    let time = tokio()?.block_on(async {
        let other = tokio::task::spawn(async move {
            for _ in 0..count {
                tokio::task::yield_now().await;
            }
        });
        let begun = Instant::now();
        for _ in 0..count {
            tokio::task::yield_now().await;
        }
        let time = each_ns(begun, 2 * count);
        other.await.map(|()| time)
    });
    time.map_err(|_| wrong("tokio"))
}

/// Tasks that are started and waited for, one after the other.
pub(super) fn tokio_spawned(count: usize, work: fn(u64) -> u64) -> Result<f64, BenchError> {
    tokio()?.block_on(async {
        let begun = Instant::now();
        for number in 0..count as u64 {
            let done = tokio::task::spawn(async move { work(std::hint::black_box(number)) }).await;
            if done.ok() != Some(work(number)) {
                return Err(wrong("tokio"));
            }
        }
        Ok(each_ns(begun, count))
    })
}

pub(super) fn over_tokio(count: usize) -> Result<f64, BenchError> {
    let result = tokio()?.block_on(async {
        let (there, mut from_here) = tokio::sync::mpsc::channel::<u8>(1);
        let (back, mut from_there) = tokio::sync::mpsc::channel::<u8>(1);
        let echo = tokio::task::spawn(async move {
            while let Some(byte) = from_here.recv().await {
                if back.send(byte.wrapping_add(1)).await.is_err() {
                    break;
                }
            }
        });
        let mut byte = 0;
        let begun = Instant::now();
        for _ in 0..count {
            let _ = there.send(byte).await;
            byte = from_there.recv().await.unwrap_or(0);
        }
        let time = each_ns(begun, count);
        drop(there);
        let _ = echo.await;
        (time, byte)
    });
    if usize::from(result.1) == count % 256 { Ok(result.0) } else { Err(wrong("tokio")) }
}

/// Two threads that wake one another.
pub(super) fn of_threads(count: usize) -> Result<f64, BenchError> {
    let turn = AtomicU32::new(0);
    let long = Duration::from_secs(10);
    let pass = |own: u32| {
        for _ in 0..count {
            while turn.load(Ordering::Acquire) != own {
                futex_wait(&turn, 1 - own, long);
            }
            turn.store(1 - own, Ordering::Release);
            futex_wake(&turn);
        }
    };
    let time = std::thread::scope(|scope| {
        scope.spawn(|| pass(1));
        let begun = Instant::now();
        pass(0);
        each_ns(begun, 2 * count)
    });
    Ok(time)
}

pub(super) fn over_threads(count: usize) -> Result<f64, BenchError> {
    let (there, from_here) = sync_channel::<u8>(1);
    let (back, from_there) = sync_channel::<u8>(1);
    let echo = std::thread::spawn(move || {
        while let Ok(byte) = from_here.recv() {
            if back.send(byte.wrapping_add(1)).is_err() {
                break;
            }
        }
    });
    let mut byte = 0;
    let begun = Instant::now();
    for _ in 0..count {
        let _ = there.send(byte);
        byte = from_there.recv().unwrap_or(0);
    }
    let time = each_ns(begun, count);
    drop(there);
    let _ = echo.join();
    if usize::from(byte) == count % 256 { Ok(time) } else { Err(wrong("threads")) }
}

/// The same in other languages, where their compilers are.
pub(super) fn of_programs() -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("there is no folder for programs"))?;
    let times = PROGRAMS.iter().filter_map(|program| {
        let time = of_program(folder.path(), program);
        if time.is_none() {
            tracing::warn!("{}: it cannot be built here, and is left out", program.0);
        }
        time.map(|time| Figure::told(&format!("switch, {}", program.0), time, "ns"))
    });
    Ok(times.collect())
}

fn of_program(folder: &Path, (_, file, source, make): &(&str, &str, &str, &[&str])) -> Option<f64> {
    let (source_path, program) = (folder.join(file), folder.join(format!("{file}.bin")));
    std::fs::write(&source_path, source).ok()?;
    let (last, first) = make.split_last()?;
    let mut command = Command::new(first.first()?);
    // A library stands behind what needs it.
    let (libraries, flags): (Vec<&str>, Vec<&str>) =
        first.iter().skip(1).copied().partition(|word| word.starts_with("-l"));
    command.args(flags).arg(last).arg(&program).arg(&source_path).args(libraries).current_dir(folder);
    command.output().ok().filter(|made| made.status.success())?;
    let output = Command::new(&program).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
