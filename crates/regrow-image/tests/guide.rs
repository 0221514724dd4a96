//! The guide has the table of variables that the code has.
//!
//! `REGROW_WRITE_GUIDE=1` writes it there.

use std::fs;
use std::path::Path;

use regrow_image::envkey;

const BEGIN: &str = "writes -->\n";
const END: &str = "<!-- end of it -->\n";

#[test]
fn the_guide_has_the_table_of_variables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src/variables.md");
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (head, rest) = page.split_once(BEGIN).expect("the page says where the tables begin");
    let (tables, tail) = rest.split_once(END).expect("the page says where the tables end");
    let wanted = format!("\n{}", envkey::markdown());
    if std::env::var_os("REGROW_WRITE_GUIDE").is_some() {
        fs::write(&path, format!("{head}{BEGIN}{wanted}{END}{tail}")).expect("the page can be written");
        return;
    }
    assert_eq!(tables, wanted, "write it with REGROW_WRITE_GUIDE=1");
}
