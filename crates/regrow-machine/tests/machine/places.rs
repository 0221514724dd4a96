//! Programs in C: each way to create a child is found at its place, with its two callers, as often as it was gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::case::{Case, nothing, programs};
use crate::program::{Workshop, behind_call, dynamic_symbol, output, run};
use crate::seen::{Places, look_at_all};

pub(crate) const CASES: &[Case] = &[
    Case { name: "places_of_every_build", looks: true, needs: nothing, run: places_of_every_build },
    Case { name: "places_of_musl", looks: true, needs: || programs(&["musl-gcc"]), run: places_of_musl },
];

/// The ways of `creator all`.
const WAYS: [&str; 6] = ["fork", "vfork", "spawn", "system", "popen", "deep"];
/// How often each is gone.
const COUNT: usize = 7;

/// How a program is built.
struct Build {
    name: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
}

/// Without unwind tables the frame pointers are followed.
const BUILDS: [Build; 7] = [
    Build { name: "pie", compiler: "gcc", flags: &["-O2", "-fPIE", "-pie"] },
    Build { name: "fixed", compiler: "gcc", flags: &["-O2", "-fno-pie", "-no-pie"] },
    Build { name: "static", compiler: "gcc", flags: &["-O2", "-static"] },
    Build { name: "static-pie", compiler: "gcc", flags: &["-O2", "-static-pie"] },
    Build { name: "plain", compiler: "gcc", flags: &["-O0"] },
    Build {
        name: "frame-pointers",
        compiler: "gcc",
        flags: &["-O1", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
    },
    Build { name: "bound-now", compiler: "gcc", flags: &["-O2", "-fno-plt", "-Wl,-z,now"] },
];

const MUSL_BUILDS: [Build; 2] = [
    Build { name: "musl", compiler: "musl-gcc", flags: &["-O2"] },
    Build { name: "musl-static", compiler: "musl-gcc", flags: &["-O2", "-static"] },
];

/// A program, and the sites that it has.
struct Expected {
    program: PathBuf,
    sites: BTreeMap<Places, usize>,
}

fn places_of_every_build() {
    check(&BUILDS);
}

fn places_of_musl() {
    check(&MUSL_BUILDS);
}

/// Each build and a copy of it without symbols, beside other load.
fn check(builds: &[Build]) {
    let workshop = Workshop::new();
    let mut all: Vec<Expected> = Vec::new();
    for build in builds {
        let program = workshop.build(build.name, build.compiler, "creator.c", build.flags);
        let stripped = workshop.strip(&program, &format!("{}-stripped", build.name));
        let sites = expected(&program, &program);
        all.extend([program, stripped].map(|program| Expected { program, sites: sites.clone() }));
    }
    let (seen, processes) = look_at_all(|| {
        let load = Load::start();
        let run =
            |expected: &Expected| run(Command::new(&expected.program).args(["all", &COUNT.to_string()]));
        let processes: Vec<u32> = all.iter().map(run).collect();
        drop(load);
        processes
    });
    for (Expected { program, sites }, pid) in all.iter().zip(processes) {
        // What has no build id is another file without its symbols.
        let told = seen.sites_of(pid).into_iter().map(|(places, count)| {
            let plain =
                |(name, offset): (String, u64)| (name.trim_end_matches("-stripped").to_owned(), offset);
            (places.into_iter().map(plain).collect::<Places>(), count)
        });
        assert_eq!(&told.collect::<BTreeMap<_, _>>(), sites, "{}", program.display());
    }
    assert_eq!(seen.losses.unread_files, 0);
}

/// The sites of a program, by the code of the one that it was stripped from.
pub(crate) fn expected(program: &Path, run: &Path) -> BTreeMap<Places, usize> {
    let own = run.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let library = c_library(program);
    let site = |way: &str| {
        let mut places: Places = ["site", "middle", "outer"]
            .map(|level| (own.clone(), behind_call(program, &format!("{level}_{way}"))))
            .into();
        if let (Some(library), "system" | "popen") = (&library, way) {
            let name = library.file_name().and_then(|name| name.to_str()).expect("a name");
            places.insert(0, (name.to_owned(), dynamic_symbol(library, way) + 1));
            places.pop();
        }
        (places, COUNT)
    };
    WAYS.into_iter().map(site).collect()
}

/// The C library that a program is linked with when it starts.
fn c_library(program: &Path) -> Option<PathBuf> {
    let headers = output(Command::new("readelf").arg("-lW").arg(program));
    let (_, interpreter) = headers.split_once("program interpreter: ")?;
    let interpreter = interpreter.split(']').next()?;
    if interpreter.contains("musl") {
        return std::fs::canonicalize(interpreter).ok();
    }
    let libraries = output(Command::new("ldd").arg(program));
    let line = libraries.lines().find(|line| line.contains("libc.so.6"))?;
    std::fs::canonicalize(line.split_whitespace().nth(2)?).ok()
}

/// Processes that come and go, until it is dropped.
struct Load(Child);

impl Load {
    fn start() -> Self {
        let script = "while read -r _ < /dev/null || :; do (:) | (:); /bin/true; done";
        let command = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn();
        Self(command.expect("a shell"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.kill().expect("it is there");
        self.0.wait().expect("it ends");
    }
}
