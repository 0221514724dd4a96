//! Processor time, life and memory of processes that end, against what the kernel says of them itself.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::case::{Case, nothing};
use crate::program::{Workshop, output};
use crate::seen::look_at_all;

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "processor_time_is_the_kernels",
        looks: true,
        needs: nothing,
        run: processor_time_is_the_kernels,
    },
    Case {
        name: "a_zombie_ends_with_the_collector",
        looks: true,
        needs: nothing,
        run: a_zombie_ends_with_the_collector,
    },
];

/// What the kernel says of a process by `wait4`, when it has used its last processor time.
struct Waited {
    pid: u32,
    cpu_us: u64,
    peak_kib: u64,
    life_us: u64,
}

/// The kernel's sum is cut to whole microseconds once for user and once for system time by `wait4`, and once by the collector.
fn processor_time_is_the_kernels() {
    let workshop = Workshop::new();
    let program = workshop.build("worker", "gcc", "worker.c", &["-O1", "-pthread"]);
    let works = [["1", "1", "100"], ["20", "1", "30000"], ["10", "4", "2000"], ["1", "16", "100"]];
    let (seen, all) =
        look_at_all(|| works.map(|work| waited(&output(Command::new(&program).arg("wait").args(work)))));
    for waited in all {
        let [usage] = seen.usage(waited.pid)[..] else { panic!("{} has ended once", waited.pid) };
        let more = usage.cpu_us.checked_sub(waited.cpu_us);
        assert!(more.is_some_and(|more| more <= 1), "{} and {}", usage.cpu_us, waited.cpu_us);
        assert_eq!(usage.peak_kib, waited.peak_kib);
        assert!((1..=waited.life_us).contains(&usage.life_us), "{} and {}", usage.life_us, waited.life_us);
    }
}

/// What the program prints.
fn waited(line: &str) -> Waited {
    let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [pid, cpu_us, peak_kib, life_us] = numbers[..] else { panic!("four numbers: {line}") };
    Waited { pid: u32::try_from(pid).expect("a process"), cpu_us, peak_kib, life_us }
}

/// A process that nobody waits for is told when collecting ends, once, with what it had used when it began to exit.
fn a_zombie_ends_with_the_collector() {
    let mut zombie = None;
    let (seen, pid) = look_at_all(|| {
        let child = Command::new("/bin/true").stdin(Stdio::null()).spawn().expect("it starts");
        let pid = child.id();
        let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is a zombie");
        while !stat().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
        zombie = Some(child);
        pid
    });
    let usage = seen.usage(pid);
    zombie.take().expect("it was started").wait().expect("it has ended");
    let [usage] = usage[..] else { panic!("{pid} has ended once: {usage:?}") };
    assert!(usage.cpu_us > 0 && usage.peak_kib > 0, "{usage:?}");
}
