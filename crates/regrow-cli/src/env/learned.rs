//! What is known of programs: which of them gain by a launcher. In a small file of JSON.
//!
//! ```text
//!   a launcher saves       what the program's start takes, as the daemon has measured it, less what the start of the smallest takes
//!   a launcher costs more  a run of the smallest program by a launcher, less one by exec; both measured here
//! ```

use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The version of the file.
const VERSION: u32 = 1;
/// Most programs that the file holds.
const MAX_PROGRAMS: usize = 1024;
/// How the name of a file ends that cannot be read.
const DAMAGED: &str = "damaged";

/// A program, by its file, and what the daemon says of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LearnedProgram {
    pub(crate) file: String,
    dev: u64,
    ino: u64,
    ctime_s: i64,
    ctime_ns: i64,
    /// What its start takes, as the daemon has measured it.
    pub(crate) start_us: Option<f64>,
    /// Why the daemon cannot keep it.
    pub(crate) refused: Option<String>,
}

impl LearnedProgram {
    pub(crate) fn new(
        file: &str,
        metadata: &Metadata,
        start_us: Option<f64>,
        refused: Option<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            dev: metadata.dev(),
            ino: metadata.ino(),
            ctime_s: metadata.ctime(),
            ctime_ns: metadata.ctime_nsec(),
            start_us,
            refused,
        }
    }

    fn is(&self, file: &Metadata) -> bool {
        let own = (self.dev, self.ino, self.ctime_s, self.ctime_ns);
        own == (file.dev(), file.ino(), file.ctime(), file.ctime_nsec())
    }
}

/// What a run of the smallest program takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Price {
    pub(crate) by_exec_us: f64,
    pub(crate) by_launcher_us: f64,
    /// What its start takes, as the daemon has measured it.
    pub(crate) start_us: f64,
}

/// Whether a program gains.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    Gains,
    Loses { costs_us: f64, saves_us: f64 },
    Refused(String),
}

/// All that is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Learned {
    version: u32,
    pub(crate) price: Option<Price>,
    pub(crate) programs: Vec<LearnedProgram>,
}

impl Learned {
    /// Reads the file. One that is damaged, or of another version, is set aside.
    pub(crate) fn read(path: &Path) -> Learned {
        let Ok(text) = std::fs::read(path) else { return Learned::default() };
        match serde_json::from_slice::<Learned>(&text) {
            Ok(learned) if learned.version == VERSION => learned,
            outcome => {
                let aside = path.with_extension(DAMAGED);
                let moved = std::fs::rename(path, &aside);
                tracing::warn!(?path, ?aside, ?moved, error = ?outcome.err(), "set aside: it cannot be used");
                Learned::default()
            }
        }
    }

    /// Writes the file anew. Whoever reads it meanwhile finds the one or the other.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let text = serde_json::to_vec_pretty(&Learned { version: VERSION, ..self.clone() })?;
        file.write_all(&text)?;
        file.persist(path).map(|_| ()).map_err(|error| error.error)
    }

    /// Notes a program in the place of what was known of its file.
    pub(crate) fn note(&mut self, program: LearnedProgram) {
        self.programs.retain(|known| known.file != program.file);
        self.programs.push(program);
        let surplus = self.programs.len().saturating_sub(MAX_PROGRAMS);
        self.programs.drain(..surplus);
    }

    /// What is known of the program of a file.
    pub(crate) fn program(&self, file: &Metadata) -> Option<&LearnedProgram> {
        self.programs.iter().find(|program| program.is(file))
    }

    /// Whether the program of a file gains; `None` when nothing is known.
    pub(crate) fn verdict(&self, file: &Metadata) -> Option<Verdict> {
        let program = self.program(file)?;
        if let Some(why) = &program.refused {
            return Some(Verdict::Refused(why.clone()));
        }
        let price = self.price?;
        let costs_us = price.by_launcher_us - price.by_exec_us;
        let saves_us = program.start_us? - price.start_us;
        Some(if saves_us > costs_us { Verdict::Gains } else { Verdict::Loses { costs_us, saves_us } })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn known(start_us: Option<f64>, refused: Option<&str>, price: Option<Price>) -> Learned {
        let metadata = fs::metadata("/bin/cat").unwrap();
        let program = LearnedProgram::new("/bin/cat", &metadata, start_us, refused.map(str::to_owned));
        Learned { price, programs: vec![program], ..Learned::default() }
    }

    fn price(by_launcher_us: f64) -> Option<Price> {
        Some(Price { by_exec_us: 800.0, by_launcher_us, start_us: 700.0 })
    }

    #[test]
    fn a_program_gains_when_a_launcher_saves_more_than_it_costs() {
        let cat = fs::metadata("/bin/cat").unwrap();
        let verdict = |learned: Learned| learned.verdict(&cat);
        assert_eq!(verdict(known(Some(700.0), None, price(350.0))), Some(Verdict::Gains));
        assert_eq!(verdict(known(Some(2000.0), None, price(1400.0))), Some(Verdict::Gains));
        let loses = Verdict::Loses { costs_us: 600.0, saves_us: 100.0 };
        assert_eq!(verdict(known(Some(800.0), None, price(1400.0))), Some(loses));
        let refused = Verdict::Refused("2 threads".to_owned());
        assert_eq!(verdict(known(None, Some("2 threads"), None)), Some(refused));
        assert_eq!(verdict(known(Some(700.0), None, None)), None);
        assert_eq!(verdict(Learned::default()), None);
        let other = fs::metadata("/bin/ls").unwrap();
        assert_eq!(known(Some(0.0), None, price(1400.0)).verdict(&other), None);
    }

    #[test]
    fn what_was_learned_is_read_again_and_a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("learned.json");
        assert_eq!(Learned::read(&path), Learned::default());
        let written = known(Some(812.5), None, price(350.0));
        written.write(&path).unwrap();
        let read = Learned::read(&path);
        assert_eq!((&read.price, &read.programs), (&written.price, &written.programs));
        for damaged in ["{", "[]", r#"{"version": 2, "price": null, "programs": []}"#] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(Learned::read(&path), Learned::default());
            assert!(!path.exists());
            assert_eq!(fs::read_to_string(folder.path().join("learned.damaged")).unwrap(), damaged);
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_program_is_noted_once() {
        let mut learned = known(Some(1.0), None, None);
        let metadata = fs::metadata("/bin/cat").unwrap();
        learned.note(LearnedProgram::new("/bin/cat", &metadata, Some(2.0), None));
        assert_eq!(learned.programs.len(), 1);
        assert_eq!(learned.programs[0].start_us, Some(2.0));
    }
}
