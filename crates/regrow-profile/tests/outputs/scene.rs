//! Profiles that are always the same.

use regrow_profile::profile::Profile;
use regrow_profile::report::{Order, Report};
use regrow_profile::savings::{Basis, Savings, Verdict};
use regrow_profile::symbols::Symbols;
use regrow_sites::{Event, Frame, ImageId, ProcessKey, Script, Site, Usage};

/// Events in the making.
#[derive(Default)]
pub(crate) struct Scene {
    pub(crate) profile: Profile,
    time_us: u64,
    pids: u32,
}

impl Scene {
    pub(crate) fn name(&mut self, image: u64, path: &str) {
        self.profile.take(Event::Named { image: ImageId(image), path: path.to_owned() });
    }

    /// A command that runs a program.
    pub(crate) fn command(&mut self, image: u64) -> ProcessKey {
        let process = self.next();
        self.profile.take(Event::Executed { time_us: self.time_us, process, image: ImageId(image) });
        process
    }

    fn next(&mut self) -> ProcessKey {
        self.time_us += 1000;
        self.pids += 1;
        ProcessKey { pid: self.pids, created_us: self.time_us }
    }

    /// A process that executes programs, one after the other.
    pub(crate) fn create(&mut self, parent: ProcessKey, site: Site, images: &[u64]) -> ProcessKey {
        let process = self.next();
        self.profile.take(Event::Created { time_us: self.time_us, process, parent, site });
        for (number, &image) in (1..).zip(images) {
            self.profile.take(Event::Executed {
                time_us: self.time_us + number,
                process,
                image: ImageId(image),
            });
        }
        process
    }

    pub(crate) fn end(&mut self, process: ProcessKey, cpu_us: u64, startup_us: Option<u64>) {
        self.time_us += 1000;
        let life_us = self.time_us - process.created_us;
        let usage = Usage { cpu_us, life_us, peak_kib: 2048, startup_us };
        self.profile.take(Event::Ended { time_us: self.time_us, process, usage });
    }

    pub(crate) fn report(mut self, title: &str) -> Report {
        self.profile.finish();
        let from = "by a benchmark: /bin/true takes 700 µs by posix_spawn and 100 µs recycled".to_owned();
        let basis = Basis { base_us: 600.0, from, smallest_start_us: None };
        let judge = |path: &str| Verdict {
            refused: path.ends_with("sudo").then(|| "the file has the set-user-ID bit".to_owned()),
            start_us: None,
        };
        Report::new(title, &self.profile, &mut Symbols::default(), &Savings::new(basis, judge), Order::Count)
    }
}

/// A site without a script, with frames as modules and offsets.
pub(crate) fn site(image: u64, frames: &[(u64, u64)]) -> Site {
    let frame =
        |index: usize| frames.get(index).map(|&(module, offset)| Frame { module: ImageId(module), offset });
    Site { image: ImageId(image), frames: [frame(0), frame(1), frame(2)], script: None, child: None }
}

/// A site in a line of a script.
pub(crate) fn in_script(image: u64, file: u64, line: u64) -> Site {
    Site { script: Some(Script { file, line }), ..site(image, &[]) }
}

pub(crate) const MAKE: u64 = 1;
pub(crate) const GCC: u64 = 2;
pub(crate) const CC1: u64 = 3;
pub(crate) const AS: u64 = 4;
pub(crate) const SHELL: u64 = 5;
const SED: u64 = 6;
const SUDO: u64 = 7;
const LIBC: u64 = 8;

/// A build: compilers below make, a script that starts small programs, one that asks for rights, and a subshell.
pub(crate) fn build() -> Scene {
    let mut scene = Scene::default();
    let names = ["make", "gcc", "../lib/gcc/cc1", "as", "dash", "sed", "sudo", "../lib/libc.so.6"];
    for (image, name) in (1..).zip(names) {
        scene.name(image, &format!("/nowhere/bin/{name}"));
    }
    scene.profile.name_script(900, "/nowhere/src/check.sh".to_owned());
    let make = scene.command(MAKE);
    for number in 0..12 {
        let gcc = scene.create(make, site(MAKE, &[(LIBC, 0x99), (MAKE, 0x1a40)]), &[GCC]);
        for (image, cpu_us) in [(CC1, 21_000 + 100 * number), (AS, 3_000)] {
            let child = scene.create(gcc, site(GCC, &[(LIBC, 0x99), (GCC, 0x77 + image)]), &[image]);
            scene.end(child, cpu_us, Some(900 + 50 * image));
        }
        scene.end(gcc, 2_200, Some(700));
    }
    let shell = scene.create(make, site(MAKE, &[(LIBC, 0x99), (MAKE, 0x1a40)]), &[SHELL]);
    for _ in 0..5 {
        let sed = scene.create(shell, in_script(SHELL, 900, 12), &[SED]);
        scene.end(sed, 800, Some(400));
    }
    let sudo = scene.create(shell, in_script(SHELL, 900, 20), &[SUDO]);
    scene.end(sudo, 2_000, Some(900));
    let subshell = scene.create(shell, in_script(SHELL, 900, 31), &[]);
    let envs = scene.create(subshell, in_script(SHELL, 900, 32), &[SHELL, SED]);
    scene.end(envs, 1_000, None);
    scene.end(subshell, 300, None);
    scene.end(shell, 4_000, Some(500));
    // One that still lives.
    scene.create(make, site(MAKE, &[(MAKE, 0x2000)]), &[SHELL]);
    scene.end(make, 9_000, None);
    scene
}
