//! The header that is checked in is what cbindgen makes of the source. `UPDATE=1` writes it.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("settings");
    let sources = ["status", "service", "client", "hooks"].map(|name| root.join(format!("src/{name}.rs")));
    let builder =
        sources.iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut made = Vec::new();
    builder.generate().expect("the source can be read").write(&mut made);
    let path = root.join("include/regrow_memory.h");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &made).expect("it can be written");
    }
    let kept = fs::read_to_string(&path).expect("it is checked in");
    let made = String::from_utf8(made).expect("text");
    assert!(made.contains("regrow_memory_alloc_zeroed") && made.contains("regrow_memory_hooks_new"));
    assert_eq!(kept, made, "run this test with UPDATE=1");
}
