//! What the chores read: the files that git knows or would add, and the crates that cargo knows.

use serde::Deserialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a chore could not look at the tree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RepoError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file, from the root of the repository.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The command's name.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A command ended with a failure.
    #[error("{program} {arguments}: {stderr}")]
    Failed {
        /// The command's name.
        program: &'static str,
        /// Its arguments, joined by blanks.
        arguments: String,
        /// What it wrote to its standard error.
        stderr: String,
    },
    /// What is generated cannot be written.
    #[error("{what}")]
    Generated {
        /// What is missing.
        what: String,
    },
    /// The output of `cargo metadata` is not what it is documented to be.
    #[error("cargo metadata of {manifest}: {source}")]
    Metadata {
        /// The manifest that was asked about.
        manifest: String,
        /// What the reader said.
        source: serde_json::Error,
    },
}

/// A text file of the tree.
#[derive(Debug)]
pub(crate) struct TextFile {
    /// Path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The whole content.
    pub(crate) text: String,
}

/// A crate.
#[derive(Debug)]
pub(crate) struct Package {
    /// The crate's name.
    pub(crate) name: String,
    /// The one line that says what it is for; may be empty.
    pub(crate) description: String,
    /// The folder of its Cargo.toml, from the root of the repository.
    pub(crate) folder: String,
    /// What it depends on.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency line of a crate.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    /// Name of the crate depended on.
    pub(crate) name: String,
    /// `None` for a normal one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// What `cargo metadata` tells.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<PackageMetadata>,
}

/// What it tells of a crate.
#[derive(Debug, Deserialize)]
struct PackageMetadata {
    name: String,
    description: Option<String>,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
}

/// The manifests of the workspaces of the repository.
const WORKSPACES: &[&str] =
    &["Cargo.toml", "agent/Cargo.toml", "client/Cargo.toml", "fuzz/Cargo.toml", "python/Cargo.toml"];

/// The repository that this crate stands in.
#[derive(Debug)]
pub(crate) struct Repo {
    root: PathBuf,
}

impl Repo {
    /// Finds the root: the folder above this crate's own.
    pub(crate) fn open() -> Result<Self, RepoError> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let root = path.canonicalize().map_err(|source| RepoError::File { path, source })?;
        Ok(Self { root })
    }

    /// Every text file that git tracks or would add, sorted by path; files that are not UTF-8 are left out.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>, RepoError> {
        let listing =
            self.output("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let full = self.root.join(path);
            // A file that is deleted but still in the index, and a link that leads elsewhere, are not read.
            if !fs::symlink_metadata(&full).is_ok_and(|facts| facts.is_file()) {
                continue;
            }
            let bytes = fs::read(&full).map_err(|source| RepoError::File { path: path.into(), source })?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        Ok(files)
    }

    /// The crates of all workspaces.
    pub(crate) fn packages(&self) -> Result<Vec<Package>, RepoError> {
        let mut packages = Vec::new();
        for manifest in WORKSPACES {
            let arguments = ["metadata", "--no-deps", "--format-version=1", "--manifest-path", manifest];
            let text = self.output("cargo", &arguments)?;
            let metadata: Metadata = serde_json::from_str(&text)
                .map_err(|source| RepoError::Metadata { manifest: (*manifest).to_owned(), source })?;
            packages.extend(metadata.packages.into_iter().map(|package| self.package(package)));
        }
        Ok(packages)
    }

    fn package(&self, metadata: PackageMetadata) -> Package {
        let folder = metadata.manifest_path.parent().unwrap_or(&self.root);
        let folder = folder.strip_prefix(&self.root).unwrap_or(folder).to_string_lossy().into_owned();
        let description = metadata.description.unwrap_or_default();
        Package { name: metadata.name, description, folder, dependencies: metadata.dependencies }
    }

    /// Whether a path, from the root of the repository, exists.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Writes a file, given from the root of the repository.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<(), RepoError> {
        fs::write(self.root.join(path), text).map_err(|source| RepoError::File { path: path.into(), source })
    }

    fn output(&self, program: &'static str, arguments: &[&str]) -> Result<String, RepoError> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(&self.root)
            .output()
            .map_err(|source| RepoError::Start { program, source })?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(RepoError::Failed { program, arguments: arguments.join(" "), stderr });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// The text of a file, or nothing if it is not among `files`.
pub(crate) fn text_of<'a>(files: &'a [TextFile], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str())
}

/// A file for the unit tests of the rules.
#[cfg(test)]
pub(crate) fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_owned(), text: text.to_owned() }
}

/// A crate for the unit tests of the rules.
#[cfg(test)]
pub(crate) fn package(name: &str, folder: &str) -> Package {
    Package {
        name: name.to_owned(),
        description: format!("What {name} is for."),
        folder: folder.to_owned(),
        dependencies: Vec::new(),
    }
}
