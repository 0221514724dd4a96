//! Generated traces: what the recorded ones are like, at any length, from a seed.

use regrow_pool::trace::{Creation, argv_hash};

/// A small generator of numbers, so that a seed gives the same trace on every machine.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }
}

/// The trace so far, and the clock.
struct Recorder {
    trace: Vec<Creation>,
    now_us: u64,
}

impl Recorder {
    fn create(&mut self, program: &str, parent: usize, lives_us: u64, peak_kib: u64) -> usize {
        self.trace.push(Creation {
            program: program.to_owned(),
            argv_hash: argv_hash(program.as_bytes()),
            parent: u32::try_from(parent).unwrap(),
            start_us: self.now_us,
            end_us: self.now_us + lives_us,
            peak_kib: Some(peak_kib),
            ..Creation::default()
        });
        self.trace.len()
    }
}

/// A web server: each request a sh, then a perl; now and then a log rotation by three other programs.
pub(crate) fn web(length: usize, seed: u64) -> Vec<Creation> {
    let mut numbers = Numbers::new(seed);
    let mut recorder = Recorder { trace: Vec::new(), now_us: 0 };
    while recorder.trace.len() < length {
        recorder.now_us += 500 + numbers.below(4000);
        let sh = recorder.create("/usr/bin/dash", 0, 6000, 1700);
        recorder.now_us += 300;
        recorder.create("/usr/bin/perl", sh, 5000, 5200);
        if numbers.below(40) == 0 {
            for (program, peak) in [("/usr/bin/gzip", 2000), ("/usr/bin/mv", 1800), ("/usr/bin/date", 1600)] {
                recorder.now_us += 400;
                recorder.create(program, sh, 900, peak);
            }
        }
    }
    recorder.trace.truncate(length);
    recorder.trace
}

/// A build: bursts of the compiler's programs, four at a time, and many small ones in between, some of them once only.
pub(crate) fn make(length: usize, seed: u64) -> Vec<Creation> {
    let mut numbers = Numbers::new(seed);
    let mut recorder = Recorder { trace: Vec::new(), now_us: 0 };
    let mut once = 0;
    while recorder.trace.len() < length {
        match numbers.below(10) {
            0..=4 => {
                for _ in 0..=numbers.below(4) {
                    let gcc = recorder.create("/usr/bin/gcc", 0, 90_000, 3000);
                    recorder.create("/usr/libexec/cc1", gcc, 70_000, 30_000);
                    recorder.now_us += 900;
                }
                recorder.now_us += 70_000;
                recorder.create("/usr/bin/as", 0, 9000, 4000);
                recorder.now_us += 9000;
            }
            5..=8 => {
                let sh = recorder.create("/usr/bin/dash", 0, 5000, 1700);
                recorder.now_us += 500;
                let tool = ["/usr/bin/sed", "/usr/bin/grep", "/usr/bin/cat"]
                    [usize::try_from(numbers.below(3)).unwrap()];
                recorder.create(tool, sh, 1000, 1800);
                recorder.now_us += 3000;
            }
            _ => {
                once += 1;
                recorder.create(&format!("/usr/src/build/conftest{once}"), 0, 800, 1500);
                recorder.now_us += 1000;
            }
        }
    }
    recorder.trace.truncate(length);
    recorder.trace
}

/// Programs of one to `programs`, in no order at all.
pub(crate) fn noise(length: usize, programs: u64, seed: u64) -> Vec<Creation> {
    let mut numbers = Numbers::new(seed);
    let mut recorder = Recorder { trace: Vec::new(), now_us: 0 };
    while recorder.trace.len() < length {
        recorder.now_us += numbers.below(3000);
        let program = numbers.below(programs);
        let lives_us = numbers.below(20_000);
        recorder.create(&format!("/bin/p{program}"), 0, lives_us, 1000 + program * 100);
    }
    recorder.trace
}
