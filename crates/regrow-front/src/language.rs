//! A language that Regrow has a front end for, and the plan that it makes for a command line.
//!
//! ```text
//!  file name ── Language::is_interpreter ──> the row          (`languages::LANGUAGES` is the table)
//!  command line ── Language::plan ──> Plan ── arguments ──> what the front end is executed with
//! ```
//!
//! A plan is data, the same for all languages. It is part of an image's key, so it is small: where the source of the front
//! end belongs among the arguments, the plan has a mark.

use std::borrow::Cow;
use std::ffi::{CString, NulError};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::names::VariableNames;

/// A row of the table: all that Regrow knows of a language.
pub struct Language {
    /// Its name. A user who loads modules ahead writes it before a colon: `python:json`.
    pub name: &'static str,
    /// Whether a file of this name is an interpreter that the front end is for.
    pub is_interpreter: fn(file_name: &[u8]) -> bool,
    /// The variables that the interpreter reads before the front end can note it.
    pub variables: VariableNames,
    /// The source of the front end, as one argument holds it.
    pub source: fn() -> Cow<'static, str>,
    /// The plan for a command line; `None` where a run must have an interpreter of its own.
    pub plan: fn(line: CommandLine<'_>) -> Option<Plan>,
}

/// What a run asks of an interpreter.
#[derive(Clone)]
pub struct CommandLine<'a> {
    /// The whole argument vector.
    pub argv: &'a [&'a [u8]],
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<&'a [u8]>,
    /// The modules to load ahead.
    pub modules: Vec<String>,
    /// Whether the script itself is to be compiled ahead.
    pub compile: bool,
}

/// How a front end is executed for a command line: all of that line that the image depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Whose front end it is.
    pub(crate) language: &'static Language,
    /// The arguments after `argv[0]`.
    pub(crate) arguments: Vec<Argument>,
    /// What the front end has loaded when it stops, each in words.
    pub(crate) loaded: Vec<String>,
    /// The plan to try where there can be no image of this one.
    pub(crate) plainer: Option<Arc<Plan>>,
}

/// An argument of a front end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Argument {
    /// These bytes.
    Word(Cow<'static, [u8]>),
    /// The source of the front end, between two texts.
    Source(String, &'static str),
}

impl Language {
    /// The modules that a request names for this language: those behind its name and a colon, and those that name no language.
    #[must_use]
    pub fn modules(&self, requested: &[String]) -> Vec<String> {
        requested.iter().filter_map(|name| self.module(name)).map(str::to_owned).collect()
    }

    /// Whether a requested module is one of this language, or of any.
    #[must_use]
    pub fn has_module(&self, requested: &str) -> bool {
        self.module(requested).is_some()
    }

    /// A requested module, if it is one of this language.
    fn module<'n>(&self, name: &'n str) -> Option<&'n str> {
        let word = name.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(name.len());
        let (word, rest) = name.split_at(word);
        match rest.strip_prefix(':') {
            // Two colons are part of a name.
            Some(module) if !module.starts_with(':') => (word == self.name).then_some(module),
            _ => Some(name),
        }
    }
}

impl Plan {
    /// The language whose front end it is.
    #[must_use]
    pub fn language(&self) -> &'static Language {
        self.language
    }

    /// The arguments of the front end, without `argv[0]`, which is the run's.
    ///
    /// # Errors
    ///
    /// When a name has a NUL byte in it.
    pub fn arguments(&self) -> Result<Vec<CString>, NulError> {
        let source = (self.language.source)();
        let bytes = |argument: &Argument| match argument {
            Argument::Word(word) => word.to_vec(),
            Argument::Source(before, behind) => [before, source.as_ref(), behind].concat().into_bytes(),
        };
        self.arguments.iter().map(|argument| CString::new(bytes(argument))).collect()
    }

    /// What the front end has loaded when it stops, joined by commas.
    #[must_use]
    pub fn loaded(&self) -> String {
        self.loaded.join(",")
    }

    /// The plan to try where there can be no image of this one.
    #[must_use]
    pub fn plainer(&self) -> Option<Arc<Plan>> {
        self.plainer.clone()
    }
}

/// Two rows are one language when they have one name.
impl PartialEq for Language {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Language {}

impl Hash for Language {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl From<&'static str> for Argument {
    fn from(word: &'static str) -> Self {
        Self::Word(Cow::Borrowed(word.as_bytes()))
    }
}

impl From<Vec<u8>> for Argument {
    fn from(word: Vec<u8>) -> Self {
        Self::Word(Cow::Owned(word))
    }
}
