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

    /// The names as an image's key takes them: `*` stands for what follows a prefix.
    #[must_use]
    pub fn patterns(&self) -> Vec<Vec<u8>> {
        let exact = self.exact.iter().map(|name| name.as_bytes().to_vec());
        exact.chain(self.prefixes.iter().map(|prefix| format!("{prefix}*").into_bytes())).collect()
    }
}
