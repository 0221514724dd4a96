//! The outcome of a run as a whole, and how two outcomes differ.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use super::manifest::{Corpus, Entry, Normaliser};
use super::run::RunResult;
use super::tree::{Kind, Node, Tree};

/// How many bytes around the first difference are shown.
const SHOWN_BEFORE: usize = 40;
const SHOWN_AFTER: usize = 80;

/// A run's result and the files that it left.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Status, streams, and how the process was made.
    pub result: RunResult,
    /// The work directory after it.
    pub tree: Tree,
}

/// A stream of bytes that a run makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One difference between two outcomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Another end.
    Status {
        /// How the first ended.
        expected: ExitStatus,
        /// How the second ended.
        found: ExitStatus,
    },
    /// Another text.
    Text {
        /// On which stream.
        stream: Stream,
        /// The first byte that differs.
        offset: usize,
        /// What the first has there.
        expected: String,
        /// What the second has there.
        found: String,
    },
    /// A name that the second run did not leave.
    Missing(PathBuf),
    /// A name that only the second run left.
    Unexpected(PathBuf),
    /// A file of other content.
    Content {
        /// The file.
        path: PathBuf,
        /// The first byte that differs.
        offset: usize,
        /// What the first has there.
        expected: String,
        /// What the second has there.
        found: String,
    },
    /// A name of another kind, mode, link count or set time.
    Attributes {
        /// The name.
        path: PathBuf,
        /// The first run's.
        expected: String,
        /// The second run's.
        found: String,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { expected, found } => write!(f, "status: {expected} became {found}"),
            Self::Text { stream, offset, expected, found } => {
                write!(f, "{stream:?} from byte {offset}: {expected:?} became {found:?}")
            }
            Self::Missing(path) => write!(f, "{} is missing", path.display()),
            Self::Unexpected(path) => write!(f, "{} should not be there", path.display()),
            Self::Content { path, offset, expected, found } => {
                write!(f, "{} from byte {offset}: {expected:?} became {found:?}", path.display())
            }
            Self::Attributes { path, expected, found } => {
                write!(f, "{}: {expected} became {found}", path.display())
            }
        }
    }
}

impl Outcome {
    pub(super) fn new(result: RunResult, tree: Tree) -> Self {
        Self { result, tree }
    }

    /// The differences between this outcome and `other`, which is of the same entry and argument list.
    pub fn differences(&self, other: &Self, entry: &Entry, corpus: &Corpus) -> Vec<Difference> {
        let normalisers: Vec<&Normaliser> =
            entry.normalise.iter().filter_map(|name| corpus.normalisers.get(name)).collect();
        let mut differences = Vec::new();
        if self.result.status != other.result.status {
            let (expected, found) = (self.result.status, other.result.status);
            differences.push(Difference::Status { expected, found });
        }
        let streams = [
            (Stream::Stdout, &self.result.stdout, &other.result.stdout),
            (Stream::Stderr, &self.result.stderr, &other.result.stderr),
        ];
        for (stream, expected, found) in streams {
            let (expected, found) = (normal(expected, &normalisers), normal(found, &normalisers));
            if let Some(Spot { offset, expected, found }) = first_difference(&expected, &found) {
                differences.push(Difference::Text { stream, offset, expected, found });
            }
        }
        compare_trees(&self.tree, &other.tree, entry, &normalisers, &mut differences);
        differences
    }
}

fn compare_trees(
    first: &Tree,
    second: &Tree,
    entry: &Entry,
    normalisers: &[&Normaliser],
    differences: &mut Vec<Difference>,
) {
    let (first, second) = (normal_names(first, normalisers), normal_names(second, normalisers));
    let names: BTreeSet<&PathBuf> = first.iter().chain(&second).map(|(name, _)| name).collect();
    for name in names {
        let nodes = |tree: &[(PathBuf, &Node)]| -> Vec<Node> {
            tree.iter().filter(|(n, _)| n == name).map(|(_, node)| (*node).clone()).collect()
        };
        let (expected, found) = (nodes(&first), nodes(&second));
        for pair in 0..expected.len().max(found.len()) {
            match (expected.get(pair), found.get(pair)) {
                (Some(expected), Some(found)) => compare_nodes(name, expected, found, entry, differences),
                (Some(_), None) => differences.push(Difference::Missing(name.clone())),
                (None, _) => differences.push(Difference::Unexpected(name.clone())),
            }
        }
    }
}

/// The nodes, each under the name by which it is compared; several nodes may share a name.
fn normal_names<'a>(tree: &'a Tree, normalisers: &[&Normaliser]) -> Vec<(PathBuf, &'a Node)> {
    let plain = |path: &Path| match path.to_str() {
        Some(text) => PathBuf::from(normal_text(text, normalisers).into_owned()),
        None => path.to_path_buf(),
    };
    tree.nodes.iter().map(|(path, node)| (plain(path), node)).collect()
}

fn compare_nodes(
    path: &Path,
    expected: &Node,
    found: &Node,
    entry: &Entry,
    differences: &mut Vec<Difference>,
) {
    let ignored = entry.ignore_content.iter().any(|name| Path::new(name) == path);
    let (first, second) = (describe(expected, ignored), describe(found, ignored));
    if first != second {
        let (path, expected, found) = (path.to_path_buf(), first, second);
        differences.push(Difference::Attributes { path, expected, found });
        return;
    }
    if let (Kind::File(first), Kind::File(second)) = (&expected.kind, &found.kind)
        && !ignored
        && let Some(Spot { offset, expected, found }) = first_difference(first, second)
    {
        differences.push(Difference::Content { path: path.to_path_buf(), offset, expected, found });
    }
}

/// All of a node but a file's content, in words. Where the content is ignored, so is its length.
fn describe(node: &Node, ignored: bool) -> String {
    let kind = match &node.kind {
        Kind::File(_) if ignored => "file".to_owned(),
        Kind::File(bytes) => format!("file of {} bytes", bytes.len()),
        Kind::Symlink(target) => format!("link to {}", target.display()),
        other => format!("{other:?}"),
    };
    let time = match node.set_time {
        Some((seconds, nanoseconds)) => format!("{seconds}.{nanoseconds:09}"),
        None => "when it ran".to_owned(),
    };
    format!("{kind}, mode {:o}, {} links, time {time}", node.mode, node.links)
}

fn normal<'a>(bytes: &'a [u8], normalisers: &[&Normaliser]) -> Cow<'a, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !normalisers.is_empty() => {
            Cow::Owned(normal_text(text, normalisers).into_owned().into_bytes())
        }
        _ => Cow::Borrowed(bytes),
    }
}

fn normal_text<'a>(text: &'a str, normalisers: &[&Normaliser]) -> Cow<'a, str> {
    normalisers.iter().fold(Cow::Borrowed(text), |text, normaliser| {
        Cow::Owned(normaliser.pattern.replace_all(&text, normaliser.with.as_str()).into_owned())
    })
}

/// Where two byte strings part, and what is around it.
struct Spot {
    offset: usize,
    expected: String,
    found: String,
}

fn first_difference(expected: &[u8], found: &[u8]) -> Option<Spot> {
    if expected == found {
        return None;
    }
    let shorter = expected.len().min(found.len());
    let offset = expected.iter().zip(found).position(|(a, b)| a != b).unwrap_or(shorter);
    let excerpt = |bytes: &[u8]| {
        let from = offset.saturating_sub(SHOWN_BEFORE);
        let to = (offset + SHOWN_AFTER).min(bytes.len());
        String::from_utf8_lossy(&bytes[from.min(to)..to]).into_owned()
    };
    Some(Spot { offset, expected: excerpt(expected), found: excerpt(found) })
}
