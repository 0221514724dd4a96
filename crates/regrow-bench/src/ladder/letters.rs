//! The experiment of the letters: a file is copied, each of its bytes handed from a reader to a writer. Beside it the loop that hands nothing over.
//!
//! After Smith, "How light weight can a process get?", sections 2 to 6: a null filter of two processes that share a buffer of one byte, over the
//! 1,261,933 bytes of his system's kernel. Both sides go through the C library's streams, a character at a time, as his did.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use regrow_fiber::{Fiber, Runtime, State, Step, channel, spawn_here, steps};

use super::contest::{Contest, each_ns, no_runtime, no_stack, wrong};
use super::native::Stream;
use crate::error::BenchError;
use crate::figure::Figure;
use crate::programs::compiler::compile;

/// The size of the file.
const BYTES: usize = 1_261_933;
/// Of bytes that go through the kernel one by one fewer are handed over.
const FEW: usize = 5_000;
const ROUNDS: usize = 11;
/// The letters' own way, in C.
const SOURCE: &str = include_str!("letters.c");

pub(super) fn measure() -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir().map_err(BenchError::system("there is no folder for a file"))?;
    let file = folder.path().join("file");
    let content: Vec<u8> = (0..BYTES).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect();
    std::fs::write(&file, &content).map_err(BenchError::system("a file cannot be written"))?;
    let jumps = compiled(folder.path())?;
    let copy = Copy::new(&file, folder.path())?;
    let times = Contest::new("letters: a byte")
        .way("fibers", || copy.checked(of_fibers))
        .way("plain loop", || copy.checked(plain))
        .way("steps", || copy.checked(of_steps))
        .way("tasks, over a channel", || copy.checked(of_tasks))
        .way("setjmp, in C", || of_program(&jumps, "jumps", &file))
        .way("plain loop, in C", || of_program(&jumps, "plain", &file))
        .way("threads, over a channel", || of_threads(FEW))
        .way("processes, over pipes (fork)", || of_process(&mut std::process::Command::new("cat")))
        .run(ROUNDS)?;
    let slower = 1.0 / times.ratio("plain loop");
    let mut figures =
        vec![Figure::at_most("letters: fibers, against the plain loop", slower, 1.5, "times as long")];
    figures.extend(times.figures());
    figures.push(recycled()?);
    Ok(figures)
}

/// A file, and where it is copied to.
struct Copy {
    from: CString,
    to: CString,
}

impl Copy {
    fn new(from: &Path, folder: &Path) -> Result<Self, BenchError> {
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|_| wrong("a path"));
        Ok(Self { from: path(from)?, to: path(&folder.join("copy"))? })
    }

    /// Has it copied, and compares. What it takes a byte.
    fn checked(&self, way: fn(Stream, Stream) -> Result<(), BenchError>) -> Result<f64, BenchError> {
        let (from, to) = (Stream::open(&self.from, c"r")?, Stream::open(&self.to, c"w")?);
        let begun = Instant::now();
        way(from, to)?;
        let time = each_ns(begun, BYTES);
        from.close();
        to.close();
        let read = |path: &CStr| std::fs::read(std::ffi::OsStr::from_bytes(path.to_bytes())).ok();
        if read(&self.from) == read(&self.to) { Ok(time) } else { Err(wrong("the copy")) }
    }
}

fn plain(from: Stream, to: Stream) -> Result<(), BenchError> {
    while let Some(byte) = from.get() {
        to.put(byte);
    }
    Ok(())
}

/// The writer is a fiber that the reader resumes with each byte.
fn of_fibers(from: Stream, to: Stream) -> Result<(), BenchError> {
    let mut writer = Fiber::<u8, (), ()>::new(move |suspender, mut byte| {
        loop {
            to.put(byte);
            byte = suspender.suspend(());
        }
    })
    .map_err(no_stack)?;
    while let Some(byte) = from.get() {
        if writer.resume(byte) != State::Yielded(()) {
            return Err(wrong("the writer"));
        }
    }
    Ok(())
}

steps! {
    /// Reads a byte when the place is free.
    struct Reader { from: Stream, place: Rc<Cell<Option<u8>>>, has_ended: Rc<Cell<bool>> } -> () {
        Read(this) => {
            match this.from.get() {
                Some(byte) => { this.place.set(Some(byte)); Next(Wait) }
                None => { this.has_ended.set(true); Done(()) }
            }
        }
        Wait(this) => { if this.place.get().is_none() { Next(Read) } else { Next(Wait) } }
    }
}

steps! {
    /// Writes the byte that stands in the place.
    struct Writer { to: Stream, place: Rc<Cell<Option<u8>>>, has_ended: Rc<Cell<bool>> } -> () {
        Write(this) => {
            match this.place.take() {
                Some(byte) => { this.to.put(byte); Next(Write) }
                None if this.has_ended.get() => Done(()),
                None => Next(Write),
            }
        }
    }
}

fn of_steps(from: Stream, to: Stream) -> Result<(), BenchError> {
    let (place, has_ended) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(false)));
    let reader = Reader::new(from, place.clone(), has_ended.clone());
    reader.beside(Writer::new(to, place, has_ended)).finish();
    Ok(())
}

/// Both are tasks, and the byte goes over a channel.
fn of_tasks(from: Stream, to: Stream) -> Result<(), BenchError> {
    let run = Runtime::with_workers(1).run(move || {
        let (sender, receiver) = channel::<u8>(1);
        let writer = spawn_here(move || receiver.iter().for_each(|byte| to.put(byte)));
        while let Some(byte) = from.get() {
            if sender.send(byte).is_err() {
                break;
            }
        }
        drop(sender);
        writer.join().is_ok()
    });
    if run.map_err(no_runtime)? { Ok(()) } else { Err(wrong("the writer")) }
}

fn compiled(folder: &Path) -> Result<std::path::PathBuf, BenchError> {
    let (source, program) = (folder.join("letters.c"), folder.join("letters"));
    std::fs::write(&source, SOURCE).map_err(BenchError::system("a file cannot be written"))?;
    compile(&["-O2", "-U_FORTIFY_SOURCE"], &[&source], &program)?;
    Ok(program)
}

/// A way in C, which prints what it takes a byte, and the sum of the bytes that it has written.
fn of_program(program: &Path, way: &str, file: &Path) -> Result<f64, BenchError> {
    let output = std::process::Command::new(program).arg(way).arg(file).output();
    let output = output.map_err(BenchError::system("a program in C does not start"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = said.split_whitespace();
    let (time, count) = (words.next().and_then(|word| word.parse().ok()), words.next());
    match time {
        Some(time) if count == Some(&BYTES.to_string()) && output.status.success() => Ok(time),
        _ => Err(wrong("setjmp, in C")),
    }
}

fn of_threads(count: usize) -> Result<f64, BenchError> {
    let (sender, receiver) = sync_channel::<u8>(0);
    let writer = std::thread::spawn(move || receiver.iter().map(u64::from).sum::<u64>());
    let begun = Instant::now();
    let mut sum = 0;
    for number in 0..count {
        let byte = number.to_le_bytes()[0];
        sum += u64::from(byte);
        let _ = sender.send(byte);
    }
    drop(sender);
    let written = writer.join().ok();
    if written == Some(sum) { Ok(each_ns(begun, count)) } else { Err(wrong("threads")) }
}

/// A process that copies, started by fork and exec: each byte goes there over a pipe and comes back over another one.
fn of_process(command: &mut std::process::Command) -> Result<f64, BenchError> {
    let failed = BenchError::system("cat does not start");
    let piped = std::process::Stdio::piped;
    let mut child = command.stdin(piped()).stdout(piped()).spawn().map_err(failed)?;
    let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(wrong("cat"));
    };
    let time = over_pipes(&mut to, &mut from);
    drop((to, from));
    let _ = child.wait();
    time
}

/// The same by a recycled one.
fn recycled() -> Result<Figure, BenchError> {
    let pool = regrow::Pool::builder().build();
    let piped = regrow::Stdio::piped;
    let mut times = Vec::new();
    for _ in 0..=ROUNDS {
        let mut command = pool.command("/bin/cat");
        let failed = BenchError::system("cat does not start");
        let mut child = command.stdin(piped()).stdout(piped()).spawn().map_err(failed)?;
        let (Some(mut to), Some(mut from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(wrong("cat"));
        };
        times.push(over_pipes(&mut to, &mut from)?);
        drop((to, from));
        let _ = child.wait();
    }
    let time = crate::samples::median(times);
    Ok(Figure::told("letters: a byte, processes, over pipes (recycled)", time, "ns"))
}

fn over_pipes(to: &mut impl Write, from: &mut impl Read) -> Result<f64, BenchError> {
    let begun = Instant::now();
    for number in 0..FEW {
        let byte = [number.to_le_bytes()[0]];
        let mut back = [0];
        let passed = to.write_all(&byte).and_then(|()| from.read_exact(&mut back));
        passed.map_err(BenchError::system("a pipe of cat"))?;
        if back != byte {
            return Err(wrong("cat"));
        }
    }
    Ok(each_ns(begun, FEW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_copies_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, vec![7; BYTES]).unwrap();
        let copy = Copy::new(&file, folder.path()).unwrap();
        for way in [plain, of_fibers, of_steps, of_tasks] {
            copy.checked(way).unwrap();
        }
        let jumps = compiled(folder.path()).unwrap();
        for way in ["jumps", "plain"] {
            of_program(&jumps, way, &file).unwrap();
        }
        of_threads(100).unwrap();
        let lost: fn(Stream, Stream) -> Result<(), BenchError> = |from, _| {
            from.get();
            Ok(())
        };
        assert!(copy.checked(lost).is_err(), "a copy that lacks something is noticed");
    }
}
