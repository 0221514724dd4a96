//! A crate depends only on crates of a lower layer; the layers stand in `layers.rs`.
//!
//! The test kit stands on top of all, and every crate may use it in its tests: a dev-dependency on it is no step up.

use super::finding::Finding;
use crate::layers::{TESTKIT, layer};
use crate::repo::{Dependency, Package};

/// How the crates of the project begin their names.
const PREFIX: &str = "regrow";

/// Checks the dependency lines of all crates.
pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    let found = |message: String| Finding::new(&format!("{}/Cargo.toml", package.folder), 1, message);
    let name = &package.name;
    if !name.starts_with(PREFIX) {
        let upward = package.dependencies.iter().filter(|dependency| dependency.name.starts_with(PREFIX));
        return upward
            .map(|dependency| {
                found(format!("`{name}` is no part of the layers, but depends on `{}`", dependency.name))
            })
            .collect();
    }
    let Some(own) = layer(name) else {
        return vec![found(format!("`{name}` has no layer: give it one in xtask/src/layers.rs"))];
    };
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        if is_allowed(own, dependency) {
            continue;
        }
        let there = layer(&dependency.name).map_or("no layer".to_owned(), |there| format!("layer {there}"));
        findings.push(found(format!(
            "`{name}` (layer {own}) depends on `{}` ({there}), which is not lower",
            dependency.name
        )));
    }
    if package.description.is_empty() {
        findings.push(found(format!("`{name}` has no description")));
    }
    findings
}

/// Whether a crate of layer `own` may depend so.
fn is_allowed(own: u8, dependency: &Dependency) -> bool {
    if !dependency.name.starts_with(PREFIX) {
        return true;
    }
    if dependency.name == TESTKIT && dependency.kind.as_deref() == Some("dev") {
        return true;
    }
    layer(&dependency.name).is_some_and(|there| there < own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::package;

    fn depending(name: &str, dependencies: &[(&str, Option<&str>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|&(name, kind)| Dependency { name: name.to_owned(), kind: kind.map(str::to_owned) })
            .collect();
        Package { dependencies, ..package(name, &format!("crates/{name}")) }
    }

    #[test]
    fn steps_down_and_foreign_crates_pass() {
        let down = depending("regrow-engine", &[("regrow-body", None), ("regrow-sys", None), ("libc", None)]);
        assert_eq!(check(&[down]), []);
        let kit = depending("regrow-sys", &[("regrow-testkit", Some("dev"))]);
        assert_eq!(check(&[kit]), []);
    }

    #[test]
    fn steps_up_and_sideways_are_found() {
        for (from, to, kind) in [
            ("regrow-image", "regrow-body", None),
            ("regrow-image", "regrow-body", Some("dev")),
            ("regrow-abi", "regrow-sys", None),
            ("regrow-front", "regrow-sys", None),
            ("regrow-cli", "regrow-testkit", None),
            ("regrow-cli", "regrow-nobody-knows", None),
            ("xtask", "regrow-sys", None),
        ] {
            let findings = check(&[depending(from, &[(to, kind)])]);
            assert_eq!(findings.len(), 1, "{from} -> {to}");
            assert_eq!(findings[0].path, format!("crates/{from}/Cargo.toml"));
        }
    }

    #[test]
    fn a_crate_without_layer_or_description_is_found() {
        assert_eq!(check(&[depending("regrow-nobody-knows", &[])]).len(), 1);
        let silent = Package { description: String::new(), ..depending("regrow-sys", &[]) };
        assert_eq!(check(&[silent]).len(), 1);
    }
}
