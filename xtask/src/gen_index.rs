//! `crates/README.md`: one line per crate, from the crate's own description, highest layer first.

use crate::layers::layer;
use crate::repo::Package;
use std::cmp::Reverse;
use std::fmt::Write as _;

/// Where the index stands, from the root of the repository.
pub(crate) const PATH: &str = "crates/README.md";

/// The text of the index of those `packages` that stand in `crates/`.
pub(crate) fn index(packages: &[Package]) -> String {
    let mut rows: Vec<(&Package, String)> = packages
        .iter()
        .filter_map(|package| folder_in_crates(package).map(|folder| (package, folder)))
        .collect();
    rows.sort_by_key(|(package, _)| (Reverse(layer(&package.name)), package.name.clone()));
    let mut text = String::from(
        "# Crates\n\nHighest layer first. A crate depends only on crates of a lower layer. Written by \
         `cargo xtask gen` from the description\nin each Cargo.toml.\n\n| crate | what it is for |\n|---|---|\n",
    );
    for (package, folder) in rows {
        let description = package.description.as_deref().unwrap_or("");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| [`{}`]({folder}/) | {description} |", package.name);
    }
    text
}

/// The name of the package's folder, if that folder stands in `crates/`.
fn folder_in_crates(package: &Package) -> Option<String> {
    let folder = package.manifest_path.parent()?;
    if folder.parent()?.file_name()? != "crates" {
        return None;
    }
    Some(folder.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str) -> Package {
        Package {
            name: name.to_owned(),
            description: Some(format!("What {name} is for.")),
            manifest_path: format!("/r/{folder}/Cargo.toml").into(),
            dependencies: Vec::new(),
        }
    }

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
                "| [`regrow-abi`](regrow-abi/) | What regrow-abi is for. |",
                "| [`regrow-sys`](regrow-sys/) | What regrow-sys is for. |",
            ]
        );
    }
}
