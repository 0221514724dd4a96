//! Names of environment variables that an image depends on.

/// Names of environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Whole names.
    pub exact: &'static [&'static str],
    /// What names begin with.
    pub prefixes: &'static [&'static str],
}

impl Names {
    /// Whether a name is among them.
    #[must_use]
    pub fn contain(&self, name: &[u8]) -> bool {
        self.exact.iter().any(|exact| exact.as_bytes() == name)
            || self.prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    }
}
