//! How the library is linked: without a C library's start files, in two segments (`link.ld`).

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/link.ld");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo::rustc-cdylib-link-arg=-nostdlib");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-T,{script}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libregrow_sites.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--build-id=none");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--eh-frame-hdr");
}
