//! The BPF object that is a part of the library is what its source gives.

use std::path::Path;
use std::process::Command;

use crate::case::{Case, programs};
use crate::program::{Workshop, output};

pub(crate) const CASES: &[Case] = &[Case {
    name: "the_object_is_what_its_source_gives",
    looks: false,
    needs: compiler,
    run: the_object_is_what_its_source_gives,
}];

/// The compiler that has built it: another version gives other bytes.
fn compiler() -> Result<(), String> {
    programs(&["clang-14", "llvm-strip-14"])?;
    if Path::new("/usr/include/bpf/bpf_helpers.h").exists() {
        Ok(())
    } else {
        Err("libbpf-dev is not installed".to_owned())
    }
}

fn the_object_is_what_its_source_gives() {
    let workshop = Workshop::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let built = workshop.path("machine.bpf.o");
    output(Command::new(folder.join("build.sh")).arg(&built));
    let read = |path: &Path| std::fs::read(path).expect("an object");
    let kept = folder.join("machine.bpf.o");
    assert!(read(&built) == read(&kept), "{} is not what bpf/build.sh gives: run it", kept.display());
}
