//! `REGROW_DISABLE`: kernel features that are to be taken as missing.
//!
//! The variable holds names of [`Feature`]s, separated by commas: `pagemap_scan,procmap_query`. With it every
//! fallback is tested on a kernel that has everything. It is read where a caller asks, into a value that is
//! handed down; a name that is not known is an error, because a fallback that was meant to be tested and was
//! not is worse than none.

use std::ffi::OsString;
use std::fmt;

use crate::probe::feature::Feature;

/// The environment variable.
pub const VARIABLE: &str = "REGROW_DISABLE";

/// A set of kernel features.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FeatureSet(u64);

const _: () = assert!(Feature::COUNT <= 64, "one bit for each feature");

/// Why [`VARIABLE`] cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DisableError {
    /// A name that no feature has.
    #[error("{VARIABLE}: no feature is called {name:?}; known are {known}", known = KnownNames)]
    Unknown {
        /// The name.
        name: String,
    },
    /// The value is not UTF-8.
    #[error("{VARIABLE}: {value:?} is not UTF-8")]
    NotUtf8 {
        /// The value.
        value: OsString,
    },
}

/// Writes the names of all features, separated by commas.
struct KnownNames;

impl fmt::Display for KnownNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Feature::all().collect::<FeatureSet>().fmt(f)
    }
}

impl FeatureSet {
    /// No feature.
    pub const EMPTY: Self = Self(0);

    /// The features that [`VARIABLE`] names; none when it is not set.
    ///
    /// # Errors
    /// When it names a feature that does not exist, or is not UTF-8.
    pub fn from_env() -> Result<Self, DisableError> {
        match std::env::var_os(VARIABLE) {
            None => Ok(Self::EMPTY),
            Some(value) => match value.into_string() {
                Ok(names) => Self::parse(&names),
                Err(value) => Err(DisableError::NotUtf8 { value }),
            },
        }
    }

    /// The features of a list of names separated by commas. Spaces around a name, and empty names, do not
    /// count.
    ///
    /// # Errors
    /// The first name that no feature has.
    pub fn parse(names: &str) -> Result<Self, DisableError> {
        let named = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        named
            .map(|name| {
                Feature::from_name(name).ok_or_else(|| DisableError::Unknown { name: name.to_owned() })
            })
            .collect()
    }

    /// Whether a feature is in it.
    pub fn contains(self, feature: Feature) -> bool {
        self.0 >> feature.index() & 1 == 1
    }

    /// Adds a feature.
    pub fn insert(&mut self, feature: Feature) {
        self.0 |= 1 << feature.index();
    }

    /// Whether no feature is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The features in it, in the order of [`Feature::all`].
    pub fn iter(self) -> impl Iterator<Item = Feature> {
        Feature::all().filter(move |feature| self.contains(*feature))
    }
}

impl FromIterator<Feature> for FeatureSet {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        let mut set = Self::EMPTY;
        for feature in features {
            set.insert(feature);
        }
        set
    }
}

impl fmt::Display for FeatureSet {
    /// As [`VARIABLE`] takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, feature) in self.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{feature}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for FeatureSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FeatureSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_back() {
        let set = FeatureSet::parse(" procmap_query,pagemap_scan,,").unwrap();
        assert!(set.contains(Feature::PagemapScan) && set.contains(Feature::ProcmapQuery));
        assert!(!set.contains(Feature::Ptrace));
        assert_eq!(set.to_string(), "pagemap_scan,procmap_query");
        assert_eq!(FeatureSet::parse(&set.to_string()), Ok(set));
    }

    #[test]
    fn nothing_is_disabled_by_an_empty_list() {
        assert_eq!(FeatureSet::parse(""), Ok(FeatureSet::EMPTY));
        assert!(FeatureSet::parse(" , ").unwrap().is_empty());
    }

    #[test]
    fn all_features_fit() {
        let all: FeatureSet = Feature::all().collect();
        assert!(all.iter().eq(Feature::all()));
        assert_eq!(FeatureSet::parse(&all.to_string()), Ok(all));
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_known_ones() {
        let error = FeatureSet::parse("pagemap_scan,pagemapscan").unwrap_err();
        assert_eq!(error, DisableError::Unknown { name: "pagemapscan".to_owned() });
        let text = error.to_string();
        assert!(
            text.starts_with("REGROW_DISABLE: no feature is called \"pagemapscan\"; known are "),
            "{text}"
        );
        for feature in Feature::all() {
            assert!(text.contains(feature.name()), "{feature} is not in: {text}");
        }
    }
}
