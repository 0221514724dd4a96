//! The library is known to programs as `libregrow_memory.so`, whatever cargo calls its file.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libregrow_memory.so");
}
