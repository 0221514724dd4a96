//! What the model costs: to tell it of a process, to ask it, to write and to read it, and how much memory a site takes.
//!
//! `cargo bench -p regrow-sites` prints medians of rounds, in which the ways take turns. Beside them stands a floor: the same number of processes
//! counted in, or looked up in, a `HashMap` by the hash of the place. It checks what it has measured: each site is predicted right.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use regrow_sites::site::{Frame, ImageId, Script, Site};
use regrow_sites::{After, Arguments, Event, Model, PlaceId, ProcessKey, Usage};

/// Rounds that are measured.
const ROUNDS: usize = 15;
/// Processes of a round.
const PROCESSES: usize = 20_000;

fn main() {
    println!("nanoseconds, medians of {ROUNDS} rounds of {PROCESSES} processes\n");
    println!(
        "{:>8} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10}",
        "sites", "told", "floor", "asked at", "asked at", "next", "floor"
    );
    println!(
        "{:>8} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10}",
        "", "a process", "", "creation", "exec", "", ""
    );
    for sites in [10, 100, 1_000, 5_000, 10_000] {
        measure(sites);
    }
}

/// The sites: twenty places in each program, with three frames; one in four is a line of a script.
fn site(number: usize) -> Site {
    let number = number as u64;
    let (program, at) = (number / 20, number % 20);
    let frame = |offset| Some(Frame { module: ImageId(program + 1), offset });
    Site {
        image: ImageId(program + 1),
        frames: [frame(1), frame(10 + at), frame(100 + at % 3)],
        script: (at % 4 == 0).then_some(Script { file: program, line: at }),
        child: Some(ImageId(1_000_000 + number % 97)),
    }
}

fn cpu_us(number: usize) -> u64 {
    100 + 37 * number as u64
}

/// The events of a process.
fn events(number: usize, process: u32) -> [Event; 4] {
    let key = |pid| ProcessKey { pid, created_us: u64::from(pid) };
    let (process, parent, time_us) = (key(process + 2), key(1), u64::from(process) * 100);
    let Site { child, .. } = site(number);
    let place = Site { child: None, ..site(number) };
    let usage =
        Usage { cpu_us: cpu_us(number), life_us: 2 * cpu_us(number), peak_kib: 2_000, startup_us: Some(50) };
    [
        Event::Created { time_us, process, parent, site: place },
        Event::Executed { time_us, process, image: child.unwrap_or(ImageId::UNKNOWN) },
        Event::Arguments { process, arguments: arguments(number), hash: 0 },
        Event::Ended { time_us: time_us + 90, process, usage },
    ]
}

fn arguments(number: usize) -> Arguments {
    Arguments { magnitude: 2, class: u32::try_from(number % 7).unwrap_or(0) + 1 }
}

fn measure(sites: usize) {
    // The order is not that of the sites.
    let order: Vec<usize> = (0..PROCESSES).map(|step| step * 7_919 % sites).collect();
    let told: Vec<Event> = (0..).zip(&order).flat_map(|(process, &number)| events(number, process)).collect();
    let asked: Vec<Site> = order.iter().map(|&number| site(number)).collect();
    let hashes: Vec<u64> = asked.iter().map(Site::place_hash).collect();
    let mut model = Model::default();
    let mut floor: HashMap<u64, u64> = HashMap::new();
    (0..3).for_each(|_| told.iter().for_each(|event| model.observe(event)));
    let mut figures: [Vec<f64>; 6] = Default::default();
    for _ in 0..ROUNDS {
        // Processes have other numbers in each round: the table has forgotten those of the round before.
        let ways: [&mut dyn FnMut(); 6] = [
            &mut || told.iter().for_each(|event| model.observe(event)),
            &mut || hashes.iter().for_each(|&hash| *floor.entry(hash).or_default() += 1),
            &mut || {},
            &mut || {},
            &mut || {},
            &mut || {},
        ];
        for (way, figure) in ways.into_iter().zip(&mut figures).take(2) {
            figure.push(timed(way));
        }
        let mut sum = 0;
        figures[2].push(timed(&mut || {
            for site in &asked {
                let at_creation = Site { child: None, ..*site };
                sum += u64::from(model.predict(&at_creation).is_short(1_000));
            }
        }));
        figures[3].push(timed(&mut || {
            for (site, &number) in asked.iter().zip(&order) {
                sum += u64::from(model.predict_call(site, Some(arguments(number))).is_short(1_000));
            }
        }));
        figures[4].push(timed(&mut || {
            for site in &asked {
                sum += u64::from(model.next(After::Place(PlaceId::of(site))).is_some());
            }
        }));
        figures[5].push(timed(&mut || hashes.iter().for_each(|hash| sum += floor[hash])));
        black_box(sum);
    }
    let medians = figures.map(median);
    let [told, floor_told, at_creation, at_exec, next, floor_asked] = medians;
    println!(
        "{sites:>8} {told:>10.0} {floor_told:>10.0} {at_creation:>12.0} {at_exec:>10.0} {next:>10.0} {floor_asked:>10.0}"
    );
    check(&model, sites);
}

/// Tells what the model takes, and whether it has learned what it was told.
fn check(model: &Model, sites: usize) {
    let is_right = |&number: &usize| {
        let median = model.predict_call(&site(number), Some(arguments(number))).cpu_us.quantile(0.5);
        median.abs_diff(cpu_us(number)) * 8 <= cpu_us(number)
    };
    let right = (0..sites).filter(is_right).count();
    let started = Instant::now();
    let bytes = model.encode();
    let written_us = started.elapsed().as_micros();
    let started = Instant::now();
    let read = Model::decode(&bytes).map(|model| model.counts().keys);
    let read_us = started.elapsed().as_micros();
    assert_eq!(read, Ok(model.counts().keys), "what was written is read");
    assert!(right * 100 >= sites * 95, "{right} of {sites} sites are predicted right");
    let (keys, size) = (model.counts().keys, bytes.len());
    println!(
        "{:>8} {right} predicted right; {keys} keys; {} bytes of memory, {:.0} a site; file {size} bytes, written in {written_us} µs, read in {read_us} µs",
        "",
        model.memory_bytes(),
        model.memory_bytes() as f64 / sites as f64,
    );
}

/// Nanoseconds for each process.
fn timed(work: &mut dyn FnMut()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64() * 1e9 / PROCESSES as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
