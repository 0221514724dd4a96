//! What each resource costs, made from nothing and taken from the pool: table 3 of Taniguchi et al. (2020), on Linux.
//!
//! Shells, images and bodies come out of a pool. Nobody can take an argument area, a region or the facts of a program out of a
//! pool alone: for these the benchmark does to its own memory and facts what the pool does with them.

use std::ffi::OsStr;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use regrow::Pool;
use regrow_image::elf::ElfFacts;
use regrow_image::resolve::find_program;
use regrow_pool::policy::{Frequency, PolicyChoice, PoolSettings};
use serde::Serialize;

use crate::error::{BenchError, check_recycled};
use crate::quiet;
use crate::samples::median;
use crate::system::memory::{PrivateMemory, write_page_of_shared};
use crate::table::{Alignment, TextTable, output_width};

/// How often the benchmark takes each resource.
const TIMES: usize = 201;
/// The program that it starts.
const PROGRAM: &str = "/bin/true";
/// A program that runs often, so that the pool makes shells of its bodies.
const OTHER: &str = "/bin/cat";
/// How large the argument area of a body is.
const AREA_BYTES: usize = regrow_abi::ARG_AREA_BYTES;
/// How much of it a run's arguments fill.
const ARGS_BYTES: usize = 4096;
/// The fewest runs in a shell whose median is a figure.
const LEAST_IN_SHELL: usize = TIMES / 4;
/// How long the benchmark waits for a body or a shell to be ready again.
const REST: Duration = Duration::from_millis(1);

/// A resource, and what it costs without the pool and with it, in microseconds.
#[derive(Debug, Serialize)]
pub struct ResourceCost {
    resource: String,
    anew_us: f64,
    pooled_us: f64,
}

/// Measures all resources.
///
/// # Errors
/// [`BenchError`] when a run fails, or too few come out of the pool.
pub fn measure() -> Result<Vec<ResourceCost>, BenchError> {
    let mut rows = vec![
        row("(a) argument area, 256 KiB", || write_page_of_shared(AREA_BYTES), area_pooled())
            .map_err(BenchError::system("an argument area"))?,
        shell()?,
    ];
    for kib in [4, 64, 1024] {
        let pooled = region_pooled(kib * 1024).map_err(BenchError::system("a region"))?;
        let name = format!("(c) region of {kib} KiB, zeroed");
        let anew = || PrivateMemory::map(kib * 1024).map(|mut memory| memory.touch());
        rows.push(row(&name, anew, pooled).map_err(BenchError::system("a region"))?);
    }
    rows.push(facts()?);
    rows.extend(bodies()?);
    Ok(rows)
}

/// The costs as a table.
#[must_use]
pub fn describe(rows: &[ResourceCost]) -> String {
    let mut table = TextTable::new(&[
        ("resource", Alignment::Text),
        ("made anew\nµs", Alignment::Right),
        ("from the pool\nµs", Alignment::Right),
        ("ratio", Alignment::Right),
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
) -> Result<ResourceCost, E> {
    let (mut made, mut taken) = (Vec::with_capacity(TIMES), Vec::with_capacity(TIMES));
    for _ in 0..TIMES {
        made.push(time(&mut anew)?);
        taken.push(time(&mut pooled)?);
    }
    Ok(ResourceCost { resource: name.to_owned(), anew_us: median_us(made), pooled_us: median_us(taken) })
}

fn time<E>(act: &mut impl FnMut() -> Result<(), E>) -> Result<Duration, E> {
    let began = Instant::now();
    act()?;
    Ok(began.elapsed())
}

fn median_us(times: Vec<Duration>) -> f64 {
    median(times).as_secs_f64() * 1e6
}

/// Writes arguments into an area that is mapped already.
fn area_pooled() -> impl FnMut() -> io::Result<()> {
    let mut area = vec![0u8; AREA_BYTES];
    move || {
        black_box(&mut area)[..ARGS_BYTES].fill(1);
        Ok(())
    }
}

/// Zeroes and touches memory that is mapped already.
fn region_pooled(bytes: usize) -> io::Result<impl FnMut() -> io::Result<()>> {
    let mut memory = PrivateMemory::map(bytes)?;
    Ok(move || {
        memory.zero();
        memory.touch();
        Ok(())
    })
}

/// The facts of a program: its file found and read, and looked up in a table.
fn facts() -> Result<ResourceCost, BenchError> {
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
        .map_err(BenchError::system("the program's facts"))
}

/// A program that runs too seldom for a body, executed in a new task and in a shell.
fn shell() -> Result<ResourceCost, BenchError> {
    let seldom = Frequency { window: 64, at_least: 32, review_every: u32::MAX };
    let settings =
        PoolSettings { frequency: seldom, again: u32::MAX, follows_percent: 101, ..PoolSettings::default() };
    let with_shells = Pool::builder().policy(PolicyChoice::Pool(settings)).build();
    let without = Pool::builder().recycle(false).build();
    for _ in 0..40 {
        quiet::run(&with_shells, Path::new(OTHER))?;
        std::thread::sleep(REST);
    }
    let (mut anew, mut pooled) = (Vec::new(), Vec::new());
    let before = with_shells.stats().in_shell;
    for round in 0..TIMES {
        std::thread::sleep(REST);
        anew.push(time(&mut || quiet::run(&without, Path::new(PROGRAM)))?);
        let one = time(&mut || quiet::run(&with_shells, Path::new(PROGRAM)))?;
        if with_shells.stats().in_shell - before > pooled.len() as u64 {
            pooled.push(one);
        }
        // The one stays seldom, and the other one often.
        if round % 2 == 0 {
            (0..3).try_for_each(|_| quiet::run(&with_shells, Path::new(OTHER)))?;
        }
    }
    if pooled.len() < LEAST_IN_SHELL {
        let (recycled, runs) = (pooled.len() as u64, TIMES as u64);
        return Err(BenchError::NotRecycled { what: "shells".to_owned(), recycled, runs });
    }
    let name = format!("(b) blank address space: {PROGRAM} executed in it ({} in a shell)", pooled.len());
    Ok(ResourceCost { resource: name, anew_us: median_us(anew), pooled_us: median_us(pooled) })
}

/// An image, and a body of it.
fn bodies() -> Result<Vec<ResourceCost>, BenchError> {
    let (exec, kept) = (Pool::builder().recycle(false).build(), Pool::new());
    prepare(&kept)?;
    let (mut images, mut bodies, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..TIMES {
        std::thread::sleep(REST);
        bodies.push((
            time(&mut || quiet::run(&exec, Path::new(PROGRAM)))?,
            time(&mut || quiet::run(&kept, Path::new(PROGRAM)))?,
        ));
        found.push(time(&mut || prepare(&kept))?);
        if round % 10 == 0 {
            let fresh = Pool::new();
            images.push(time(&mut || prepare(&fresh))?);
        }
    }
    let stats = kept.stats();
    check_recycled("whole bodies", stats.recycled.total() + stats.forked_body.total(), stats.total())?;
    let (whole, ready) = bodies.into_iter().unzip();
    Ok(vec![
        ResourceCost {
            resource: "(e) image with its first body".to_owned(),
            anew_us: median_us(images),
            pooled_us: median_us(found),
        },
        ResourceCost {
            resource: format!("(f) whole body: {PROGRAM}, call to end"),
            anew_us: median_us(whole),
            pooled_us: median_us(ready),
        },
    ])
}

fn prepare(pool: &Pool) -> Result<(), BenchError> {
    pool.prepare(&pool.command(PROGRAM))
        .map(drop)
        .map_err(io::Error::other)
        .map_err(BenchError::system("the image cannot be made"))
}
