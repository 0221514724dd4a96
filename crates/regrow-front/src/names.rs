//! The names of environment variables that an interpreter reads before its front end can note them.

/// A set of names: whole ones, and all that begin with a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableNames {
    /// Whole names.
    pub exact: &'static [&'static str],
    /// What names begin with.
    pub prefixes: &'static [&'static str],
}

impl VariableNames {
    /// Whether the set has a name.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_whole_or_begins_with_a_prefix() {
        let names = VariableNames { exact: &["HOME"], prefixes: &["LC_"] };
        assert!(names.contain(b"HOME") && names.contain(b"LC_ALL") && names.contain(b"LC_"));
        assert!(!names.contain(b"HOMER") && !names.contain(b"LC"));
        assert_eq!(names.patterns(), [b"HOME".to_vec(), b"LC_*".to_vec()]);
    }
}
