//! Environment variables that are read before `main`, and are therefore part of an image's key.
//!
//! An image made at `main` holds what the loader, the C library and the constructors of all
//! libraries made of the environment. A run with another value of such a variable needs another
//! image. All other variables reach the run by its own `environ`, and need not be equal.
//!
//! At the `entry` point nothing has been read: there no variable belongs to the key. The same
//! holds for what a language's runtime reads on its own stack-given environment after entry
//! (`GOMAXPROCS`, `GODEBUG`).
//!
//! There are three sources of names:
//!
//! - [`KEY_VARIABLES`]: readers that walk the environment themselves, which nobody can watch
//!   (loaders, tunables, OpenMP, sanitizers, allocators), and the most common constructors, for
//!   static programs whose `getenv` cannot be found either;
//! - learned names: what `getenv` and `secure_getenv` were asked for before `main` while the image
//!   was made ([`KeyNames::with_learned`]);
//! - [`LATE_VARIABLES`] are *not* in the key. They look as if they belonged to it, because a
//!   set-user-id program is not given them, but glibc reads them on demand. When a constructor
//!   demands one early, it is learned.
//!
//! Semantics of the environment block: `getenv` takes the first entry of a name, the loader the
//! last, and an audit list adds up. So all entries of a key name count, in their order, and an
//! entry without `=` counts as a name. The order of different names among each other does not
//! matter to any reader, and is not part of the key.
//!
//! Facts are those of glibc 2.36 to 2.42 (`elf/rtld.c`, `elf/dl-support.c`, `elf/dl-tunables.list`)
//! and musl 1.2 (`ldso/dynlink.c`).

mod table;
#[cfg(test)]
mod tests;
mod variable;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fmt::Write;

pub use table::{KEY_VARIABLES, LATE_VARIABLES};
pub use variable::{Effect, KeyVariable, Pattern};

/// The names whose entries belong to the key of an image: those of the table, and learned ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyNames {
    learned: BTreeSet<Box<[u8]>>,
    prefixes: Vec<Box<[u8]>>,
    all: bool,
}

impl KeyNames {
    /// The table's names and those that `getenv` was asked for. A name that holds a `=` counts up
    /// to there, which is more than it asks for. The empty name has no entries.
    #[must_use]
    pub fn with_learned<N: AsRef<[u8]>>(names: &[N]) -> Self {
        let names = names.iter().map(|name| name_of(name.as_ref()));
        Self { learned: names.filter(|name| !name.is_empty()).map(Box::from).collect(), ..Self::default() }
    }

    /// Adds the names that a front end reads. One that ends with `*` stands for all that begin so; `*` alone for all.
    #[must_use]
    pub fn and_of_front_end<N: AsRef<[u8]>>(mut self, patterns: &[N]) -> Self {
        for pattern in patterns {
            match pattern.as_ref().strip_suffix(b"*") {
                Some(b"") => self.all = true,
                Some(prefix) => self.prefixes.push(prefix.into()),
                None => drop(self.learned.insert(name_of(pattern.as_ref()).into())),
            }
        }
        self
    }

    /// The learned names that the table does not have, in the order of their bytes.
    pub fn learned(&self) -> impl Iterator<Item = &[u8]> {
        self.learned.iter().map(|name| &**name).filter(|name| !in_table(name))
    }

    /// Do entries of this name belong to the key?
    #[must_use]
    pub fn contains(&self, name: &[u8]) -> bool {
        self.all
            || in_table(name)
            || self.learned.contains(name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// The entries that belong to the key: sorted by name, entries of one name in the order of
    /// the environment.
    pub fn select<'a>(&self, env: impl IntoIterator<Item = &'a CStr>) -> Vec<&'a CStr> {
        let belongs = |entry: &&CStr| self.contains(name_of(entry.to_bytes()));
        let mut entries: Vec<&CStr> = env.into_iter().filter(belongs).collect();
        // A stable sort: it keeps the order of entries with the same name.
        entries.sort_by_key(|entry| name_of(entry.to_bytes()));
        entries
    }
}

/// The entries of `env` that belong to the key of every image, without learned names. See
/// [`KeyNames::select`].
pub fn key_variables<'a>(env: impl IntoIterator<Item = &'a CStr>) -> Vec<&'a CStr> {
    KeyNames::default().select(env)
}

/// The first entry that makes the program act before `main` ([`Effect::Acts`]): with it, only
/// the `entry` point or exec gives what the program would do.
pub fn acts_before_main<'a>(env: impl IntoIterator<Item = &'a CStr>) -> Option<&'a CStr> {
    env.into_iter().find(|entry| {
        let name = name_of(entry.to_bytes());
        rows_of(name).any(|row| row.effect == Effect::Acts)
    })
}

/// The first entry by which the loader looks for libraries in the working directory: a relative or
/// empty element of a search path, or a relative file. With it, an image at `main` holds for one
/// working directory only.
pub fn loads_from_working_directory<'a>(env: impl IntoIterator<Item = &'a CStr>) -> Option<&'a CStr> {
    env.into_iter().find(|entry| {
        let bytes = entry.to_bytes();
        let name = name_of(bytes);
        let value = bytes.get(name.len() + 1..).unwrap_or_default();
        let mut parts = value.split(|byte| matches!(byte, b':' | b';' | b' ' | b'\n'));
        let relative = |part: &[u8]| !part.starts_with(b"/") && !part.starts_with(b"$");
        match name {
            b"LD_LIBRARY_PATH" => !value.is_empty() && parts.any(relative),
            b"LD_PRELOAD" | b"LD_AUDIT" => parts.any(|part| part.contains(&b'/') && relative(part)),
            _ => false,
        }
    })
}

/// The tables as Markdown, for the guide.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::new();
    for (title, rows) in [("Part of the key", KEY_VARIABLES), ("Read later", LATE_VARIABLES)] {
        // Writing to a string does not fail.
        let _ = write!(text, "### {title}\n\n| variable | read by | for | at `main` |\n|---|---|---|---|\n");
        for row in rows {
            let at_main = match row.effect {
                Effect::State => "kept in the image",
                Effect::Acts => "not kept: `entry` or exec",
            };
            let at_main = if title == "Read later" { "free" } else { at_main };
            let _ = writeln!(text, "| `{}` | {} | {} | {at_main} |", row.pattern, row.who_reads, row.why);
        }
        text.push('\n');
    }
    text
}

/// The part of an entry before its first `=`.
fn name_of(entry: &[u8]) -> &[u8] {
    entry.split(|&byte| byte == b'=').next().unwrap_or_default()
}

/// Which bytes a name of the table can begin with: most entries are out at once.
const FIRST_BYTES: [bool; 256] = first_bytes();

const fn first_bytes() -> [bool; 256] {
    let mut first = [false; 256];
    let mut row = 0;
    while row < KEY_VARIABLES.len() {
        first[KEY_VARIABLES[row].pattern.text().as_bytes()[0] as usize] = true;
        row += 1;
    }
    first
}

fn rows_of(name: &[u8]) -> impl Iterator<Item = &'static KeyVariable> {
    let possible = name.first().and_then(|&byte| FIRST_BYTES.get(usize::from(byte))) == Some(&true);
    let rows = if possible { KEY_VARIABLES } else { &[] };
    rows.iter().filter(move |row| row.pattern.matches(name))
}

fn in_table(name: &[u8]) -> bool {
    rows_of(name).next().is_some()
}
