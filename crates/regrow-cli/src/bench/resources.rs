//! What getting each resource costs, made anew and taken from the pool: the table 3 of Taniguchi et al. (2020), on Linux.
//!
//! Shells, images and bodies are the pool's own. An argument area, a region and a program's facts cannot be taken alone: there
//! the pooled side is what the pool does with them, done to memory and facts of this process.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::{Pool, Stdio};
use regrow_image::elf::ElfFacts;
use regrow_image::resolve::find_program;
use regrow_pool::policy::{Choice, Frequency, PoolSettings};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use serde::Serialize;

use super::samples::median;
use crate::error::CliError;
use crate::table::{Kind, Table, output_width};

/// How often each is taken.
const TIMES: usize = 201;
/// The program that is started.
const PROGRAM: &str = "/bin/true";
/// One that runs often, so that shells can be made of its bodies.
const OTHER: &str = "/bin/cat";
/// Bytes of the argument area: what a body has.
const AREA_BYTES: usize = regrow_abi::ARG_AREA_BYTES;
const PAGE: usize = 4096;
/// How long a body or a shell is given to be ready again.
const REST: Duration = Duration::from_millis(1);

/// A resource, its price without the pool and with it.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    resource: String,
    anew_us: f64,
    pooled_us: f64,
}

/// Measures all of them.
pub(super) fn measure() -> Result<Vec<Row>, CliError> {
    let mut rows = vec![
        row("(a) argument area, 256 KiB", area_anew, area_pooled())
            .map_err(CliError::system("an argument area"))?,
        shell()?,
    ];
    for kib in [4, 64, 1024] {
        let pooled = region_pooled(kib * 1024).map_err(CliError::system("a region"))?;
        let name = format!("(c) region of {kib} KiB, zeroed");
        rows.push(row(&name, || region_anew(kib * 1024), pooled).map_err(CliError::system("a region"))?);
    }
    rows.push(facts()?);
    rows.extend(bodies()?);
    Ok(rows)
}

/// The rows as a table.
pub(super) fn describe(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("resource", Kind::Text),
        ("made anew\nµs", Kind::Right),
        ("from the pool\nµs", Kind::Right),
        ("ratio", Kind::Right),
    ]);
    for row in rows {
        let ratio = row.anew_us / row.pooled_us.max(0.001);
        table.row([
            row.resource.clone(),
            format!("{:.2}", row.anew_us),
            format!("{:.2}", row.pooled_us),
            format!("{ratio:.1}"),
        ]);
    }
    table.render(output_width())
}

fn row<E>(
    name: &str,
    mut anew: impl FnMut() -> Result<(), E>,
    mut pooled: impl FnMut() -> Result<(), E>,
) -> Result<Row, E> {
    let (mut made, mut taken) = (Vec::with_capacity(TIMES), Vec::with_capacity(TIMES));
    for _ in 0..TIMES {
        made.push(time(&mut anew)?);
        taken.push(time(&mut pooled)?);
    }
    Ok(Row { resource: name.to_owned(), anew_us: median_us(made), pooled_us: median_us(taken) })
}

fn time<E>(act: &mut impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let began = Instant::now();
    act()?;
    Ok(began.elapsed())
}

fn median_us(times: Vec<Duration>) -> f64 {
    median(times).as_secs_f64() * 1e6
}

/// Maps shared memory, writes a page of arguments, and gives it back.
fn area_anew() -> io::Result<()> {
    let area = rustix::fs::memfd_create("regrow-bench", rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&area, AREA_BYTES as u64)?;
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    // SAFETY: a new mapping at an address of the kernel's choice, written within its bounds and unmapped once.
    unsafe {
        let start = rustix::mm::mmap(std::ptr::null_mut(), AREA_BYTES, access, flags, &area, 0)?;
        std::ptr::write_bytes(start.cast::<u8>(), 1, PAGE);
        black_box(start);
        Ok(munmap(start, AREA_BYTES)?)
    }
}

/// Writes a page of arguments into an area that is mapped.
fn area_pooled() -> impl FnMut() -> io::Result<()> {
    let mut area = vec![0u8; AREA_BYTES];
    move || {
        black_box(&mut area)[..PAGE].fill(1);
        Ok(())
    }
}

fn region_anew(bytes: usize) -> io::Result<()> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice, written within its bounds and unmapped once.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)?;
        touch(start.cast(), bytes);
        Ok(munmap(start, bytes)?)
    }
}

/// Pages that are mapped already are made zero, and touched.
fn region_pooled(bytes: usize) -> io::Result<impl FnMut() -> io::Result<()>> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping at an address of the kernel's choice; it stays until this process ends.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)? } as usize;
    Ok(move || {
        // SAFETY: the mapping made above, which nobody else uses.
        unsafe {
            std::ptr::write_bytes(start as *mut u8, 0, bytes);
            touch(start as *mut u8, bytes);
        }
        Ok(())
    })
}

/// # Safety
/// So many bytes are writable.
unsafe fn touch(start: *mut u8, bytes: usize) {
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: by the contract.
        unsafe { start.add(offset).write_volatile(1) };
    }
}

/// What a name stands for: searched and read, and remembered.
fn facts() -> Result<Row, CliError> {
    let path = std::env::var_os("PATH");
    let anew = || -> io::Result<()> {
        let name = Path::new(PROGRAM).file_name().unwrap_or(OsStr::new("true"));
        let found = find_program(name, path.as_deref(), None).map_err(io::Error::other)?;
        black_box(ElfFacts::read(&File::open(found.path)?).map_err(io::Error::other)?);
        Ok(())
    };
    let mut table = std::collections::HashMap::new();
    table.insert(PROGRAM.to_owned(), 1);
    let pooled = || {
        black_box(table.get(black_box(PROGRAM)));
        Ok(())
    };
    row("(d) program facts: search, ELF headers", anew, pooled)
        .map_err(CliError::system("the program's facts"))
}

/// A program that is not kept, executed in a new task and in a shell.
fn shell() -> Result<Row, CliError> {
    let seldom = Frequency { window: 64, at_least: 32, review_every: u32::MAX };
    let settings =
        PoolSettings { frequency: seldom, again: u32::MAX, follows_percent: 101, ..PoolSettings::default() };
    let with_shells = Pool::builder().policy(Choice::Pool(settings)).build();
    let without = Pool::builder().recycle(false).build();
    for _ in 0..40 {
        run(&with_shells, OTHER)?;
        std::thread::sleep(REST);
    }
    let (mut anew, mut pooled) = (Vec::new(), Vec::new());
    let before = with_shells.stats().in_shell;
    for round in 0..TIMES {
        std::thread::sleep(REST);
        anew.push(time(&mut || run(&without, PROGRAM))?);
        let one = time(&mut || run(&with_shells, PROGRAM))?;
        if with_shells.stats().in_shell - before > pooled.len() as u64 {
            pooled.push(one);
        }
        // So that it stays seldom, and the other one often.
        if round % 2 == 0 {
            (0..3).try_for_each(|_| run(&with_shells, OTHER))?;
        }
    }
    let name = format!("(b) blank address space: {PROGRAM} executed in it ({} in a shell)", pooled.len());
    Ok(Row { resource: name, anew_us: median_us(anew), pooled_us: median_us(pooled) })
}

/// The image, and a body with it.
fn bodies() -> Result<Vec<Row>, CliError> {
    let (exec, kept) = (Pool::builder().recycle(false).build(), Pool::new());
    prepare(&kept)?;
    let (mut images, mut bodies, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..TIMES {
        std::thread::sleep(REST);
        bodies.push((time(&mut || run(&exec, PROGRAM))?, time(&mut || run(&kept, PROGRAM))?));
        found.push(time(&mut || prepare(&kept))?);
        if round % 10 == 0 {
            let fresh = Pool::new();
            images.push(time(&mut || prepare(&fresh))?);
        }
    }
    let (whole, ready) = bodies.into_iter().unzip();
    Ok(vec![
        Row {
            resource: "(e) image with its first body".to_owned(),
            anew_us: median_us(images),
            pooled_us: median_us(found),
        },
        Row {
            resource: format!("(f) whole body: {PROGRAM}, call to end"),
            anew_us: median_us(whole),
            pooled_us: median_us(ready),
        },
    ])
}

fn prepare(pool: &Pool) -> Result<(), CliError> {
    pool.prepare(&pool.command(PROGRAM))
        .map(drop)
        .map_err(io::Error::other)
        .map_err(CliError::system("the image cannot be made"))
}

fn run(pool: &Pool, program: &str) -> Result<(), CliError> {
    let mut command = pool.command(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status();
    let status =
        status.map_err(|source| CliError::Start { program: program.to_owned(), by: "regrow", source })?;
    if status.success() {
        return Ok(());
    }
    Err(CliError::system("the program failed")(io::Error::other(status.to_string())))
}
