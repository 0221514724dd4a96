//! `crates/README.md`: one line per crate, from the crate's own description, highest layer first.

use crate::layers::highest_first;
use crate::repo::Package;
use std::fmt::Write as _;

/// Where the index stands, from the root of the repository.
pub(crate) const PATH: &str = "crates/README.md";

/// The text of the index of those `packages` that stand in `crates/`.
pub(crate) fn index(packages: &[Package]) -> String {
    let mut text = String::from(
        "# Crates\n\nHighest layer first. A crate depends only on crates of a lower layer. Written by \
         `cargo xtask gen` from the description\nin each Cargo.toml.\n\n| crate | what it is for |\n|---|---|\n",
    );
    for package in highest_first(packages) {
        if let Some(folder) = package.folder.strip_prefix("crates/") {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| [`{}`]({folder}/) | {} |", package.name, package.description);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::package;

    #[test]
    fn index_lists_crates_highest_layer_first_and_nothing_outside() {
        let packages = [
            package("regrow-sys", "crates/regrow-sys"),
            package("regrow-cli", "crates/regrow-cli"),
            package("regrow-abi", "crates/regrow-abi"),
            package("xtask", "xtask"),
        ];
        let text = index(&packages);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| [")).collect();
        assert_eq!(
            rows,
            [
                "| [`regrow-cli`](regrow-cli/) | What regrow-cli is for. |",
                "| [`regrow-sys`](regrow-sys/) | What regrow-sys is for. |",
                "| [`regrow-abi`](regrow-abi/) | What regrow-abi is for. |",
            ]
        );
    }
}
