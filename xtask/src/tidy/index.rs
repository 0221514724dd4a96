//! `crates/README.md` is what `cargo xtask gen` writes.

use super::Finding;
use crate::gen_index::{PATH, index};
use crate::repo::{Package, TextFile};

/// Checks the index against the crates.
pub(crate) fn check(files: &[TextFile], packages: &[Package]) -> Option<Finding> {
    let wanted = index(packages);
    let text = files.iter().find(|file| file.path == PATH).map_or("", |file| file.text.as_str());
    if text == wanted {
        return None;
    }
    let same = text.lines().zip(wanted.lines()).take_while(|(have, want)| have == want).count();
    Some(Finding::new(PATH, same + 1, "is not what the crates say: run `cargo xtask gen`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::file;

    #[test]
    fn only_the_generated_text_passes() {
        let packages = [Package {
            name: "regrow-sys".to_owned(),
            description: Some("What it is for.".to_owned()),
            manifest_path: "/r/crates/regrow-sys/Cargo.toml".into(),
            dependencies: Vec::new(),
        }];
        let right = index(&packages);
        assert_eq!(check(&[file(PATH, &right)], &packages), None);
        let stale = right.replace("What it is for.", "What it was for.");
        let finding = check(&[file(PATH, &stale)], &packages).unwrap();
        assert_eq!(finding.line, right.lines().count());
        assert!(check(&[], &packages).is_some());
    }
}
