//! `manifest.toml`: the attacks, who outlives them, and what must come of them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What can be wrong with the attacks themselves.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// A file cannot be used.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The manifest is not what is expected.
    #[error("{path}: {source}")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// A row says what cannot be.
    #[error("attack {attack}: {what}")]
    Row {
        /// Its name.
        attack: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A program is not there.
    #[error(
        "{path} is not built: run `make victims`, or tests/hostile/build.sh DIR and set REGROW_ATTACKS_DIR to DIR"
    )]
    NotBuilt {
        /// Where it should be.
        path: PathBuf,
    },
}

/// Who outlives an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Nobody.
    Alone,
    /// A child.
    Fork,
    /// A grandchild in a session of its own.
    Session,
    /// A program that a child executes.
    Exec,
    /// A child that shares the memory.
    Vfork,
}

impl Way {
    /// As the programs and the manifest name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Way::Alone => "alone",
            Way::Fork => "fork",
            Way::Session => "session",
            Way::Exec => "exec",
            Way::Vfork => "vfork",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A row of the manifest.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attack {
    /// Its name, and that of the program.
    pub name: String,
    /// What it does.
    pub does: String,
    /// What must come of it when nobody outlives it: alternatives, between which `|` stands.
    pub must: String,
    /// Who outlives it; the manifest's own list where it has none.
    #[serde(default)]
    pub ways: Vec<Way>,
    /// What must come of it where a process outlives it; the manifest's own where it has none.
    #[serde(default)]
    pub left: String,
    /// The signal that it ends by, if it does not exit with status 0.
    pub ends: Option<String>,
    /// What the machine may lack: without it the attack exits with status 77.
    pub needs: Option<String>,
    /// The probes have the kernel drop what it may drop.
    #[serde(default)]
    pub press: bool,
    /// Of memory only its own is compared: random numbers stand in the pages of the libc.
    #[serde(default)]
    pub loose: bool,
    /// A client of the daemon orders it too.
    #[serde(default)]
    pub daemon: bool,
    /// The ways in which it does not come out as it must.
    #[serde(default)]
    pub open: Vec<Way>,
    /// Why it is as it is.
    pub reason: Option<String>,
    /// The built program.
    #[serde(skip)]
    pub path: PathBuf,
}

impl Attack {
    /// What may come of it in this way. A body that the attack itself costs may be given up for that first.
    #[must_use]
    pub fn must(&self, way: Way) -> Vec<&str> {
        let own = self.must.split('|').filter(|must| way == Way::Alone || !matches!(*must, "fresh"));
        let left = self.left.split('|').filter(|_| way != Way::Alone);
        own.chain(left).collect()
    }

    /// Whether it does not come out as it must in this way.
    #[must_use]
    pub fn is_open(&self, way: Way) -> bool {
        self.open.contains(&way)
    }
}

/// All rows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attacks {
    /// Who outlives an attack that does not say.
    ways: Vec<Way>,
    /// What must come of it then, where the attack does not say.
    left: String,
    /// The ways that are open for every attack.
    #[serde(default)]
    open: Vec<Way>,
    /// The attacks.
    #[serde(rename = "attack")]
    pub all: Vec<Attack>,
}

impl Attacks {
    /// Reads `manifest.toml` in `dir`; the programs are those in `built`.
    ///
    /// # Errors
    /// An [`AttackError`] that names the file, or the attack.
    pub fn load(dir: &Path, built: &Path) -> Result<Attacks, AttackError> {
        let path = dir.join("manifest.toml");
        let text =
            fs::read_to_string(&path).map_err(|source| AttackError::Io { path: path.clone(), source })?;
        let mut attacks = Attacks::parse(&text)
            .map_err(|source| AttackError::Manifest { path, source: Box::new(source) })?;
        attacks.check()?;
        for attack in &mut attacks.all {
            attack.path = built.join(&attack.name);
            if !attack.path.is_file() {
                return Err(AttackError::NotBuilt { path: attack.path.clone() });
            }
        }
        Ok(attacks)
    }

    fn parse(text: &str) -> Result<Attacks, toml::de::Error> {
        let mut attacks: Attacks = toml::from_str(text)?;
        for attack in &mut attacks.all {
            if attack.ways.is_empty() {
                attack.ways.clone_from(&attacks.ways);
            }
            if attack.left.is_empty() {
                attack.left.clone_from(&attacks.left);
            }
            attack.open.extend(attacks.open.iter().filter(|way| **way != Way::Alone));
        }
        Ok(attacks)
    }

    fn check(&self) -> Result<(), AttackError> {
        let mut names = BTreeSet::new();
        for attack in &self.all {
            let wrong = |what| AttackError::Row { attack: attack.name.clone(), what };
            if !names.insert(&attack.name) {
                return Err(wrong("there are two of this name"));
            }
            let known = ["fresh", "given_up:", "exec:", "busy"];
            let is_known = |must: &str| known.iter().any(|known| must.starts_with(known));
            if !attack.must.split('|').chain(attack.left.split('|')).all(is_known) {
                return Err(wrong(
                    "what must come of it is none of fresh, given_up:REASON, exec:REASON and busy",
                ));
            }
            if !attack.open.is_empty() && attack.reason.is_none() && self.open.is_empty() {
                return Err(wrong("it is open without a reason"));
            }
        }
        Ok(())
    }

    /// The attack of a name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Attack> {
        self.all.iter().find(|attack| attack.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        ways = ["alone", "fork"]
        left = "given_up:left"

        [[attack]]
        name = "one"
        does = "Nothing"
        must = "fresh"

        [[attack]]
        name = "two"
        does = "Nothing"
        ways = ["vfork"]
        must = "fresh|given_up:pages"
        left = "given_up:shared"
    "#;

    #[test]
    fn a_row_has_what_the_manifest_says_for_all_unless_it_says_otherwise() {
        let attacks = Attacks::parse(TEXT).expect("it is right");
        attacks.check().expect("it is right");
        let (one, two) = (attacks.find("one").expect("a row"), attacks.find("two").expect("a row"));
        assert_eq!((one.must(Way::Alone), one.must(Way::Fork)), (vec!["fresh"], vec!["given_up:left"]));
        assert_eq!(two.must(Way::Alone), ["fresh", "given_up:pages"]);
        assert_eq!(
            (two.ways.as_slice(), two.must(Way::Vfork)),
            (&[Way::Vfork][..], vec!["given_up:pages", "given_up:shared"])
        );
        assert!(attacks.find("three").is_none());
    }

    #[test]
    fn rows_that_say_what_cannot_be_are_refused() {
        let with = |from: &str, to: &str| {
            let attacks = Attacks::parse(&TEXT.replace(from, to)).expect("its keys are right");
            attacks.check().expect_err("it says what cannot be").to_string()
        };
        assert!(with("\"two\"", "\"one\"").contains("two of this name"));
        assert!(with("\"fresh\"", "\"good\"").contains("none of"));
        assert!(with("name = \"one\"", "name = \"one\"\nopen = [\"alone\"]").contains("without a reason"));
    }
}
