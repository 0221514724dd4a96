//! `regrow env --learn`, which `regrow env` starts in the background from time to time: asks the daemon for its figures, measures what a
//! launcher costs, and notes both.

use std::fs::Metadata;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use regrow_daemon::wire::Question;
use serde_json::Value;

use super::learned::{Learned, LearnedProgram, Price};
use super::place::{EnvError, EnvPlace};
use crate::error::CliError;
use crate::link;
use crate::status;

/// The daemon is asked again after so long.
const EVERY: Duration = Duration::from_secs(60);
/// The smallest program.
const SMALLEST: &str = "/bin/true";
/// Runs of it that are measured, and runs before.
const RUNS: usize = 21;
const WARM_UP: usize = 4;
/// How long the daemon has to make its image.
const IMAGE_TIME: Duration = Duration::from_millis(300);

/// Whether it is time to ask the daemon.
pub(super) fn is_due(place: &EnvPlace) -> bool {
    let asked = place.asked().metadata().and_then(|asked| asked.modified());
    asked.is_ok_and(|asked| SystemTime::now().duration_since(asked).is_ok_and(|age| age > EVERY))
}

/// Notes that the daemon is about to be asked: nobody else asks meanwhile.
pub(super) fn note_asked(place: &EnvPlace) -> Result<(), EnvError> {
    let asked = place.asked();
    std::fs::write(&asked, "").map_err(EnvError::system(&asked, "cannot be written"))
}

/// Asks, measures and notes.
pub(super) fn learn() -> Result<u8, CliError> {
    let place = EnvPlace::of_user()?;
    place.make()?;
    note_asked(&place)?;
    let images = status::ask(Question::Status)?;
    let before = Learned::read(&place.learned());
    let mut learned = before.clone();
    note_images(&mut learned, &images);
    if let Some((by_exec_us, by_launcher_us)) = measure(&place) {
        // The daemon has an image of the smallest program by now.
        let images = status::ask(Question::Status)?;
        if let Some(start_us) = start_of(&images, SMALLEST) {
            learned.price = Some(Price { by_exec_us, by_launcher_us, start_us });
        }
    }
    if learned != before {
        learned.write(&place.learned()).map_err(EnvError::system(&place.learned(), "cannot be written"))?;
    }
    Ok(0)
}

/// Notes what the daemon says of each program that it keeps, or cannot keep.
fn note_images(learned: &mut Learned, status: &Value) {
    for image in status["images"].as_array().into_iter().flatten() {
        let (Some(file), Some(state)) = (image["file"].as_str(), image["state"].as_str()) else { continue };
        let Ok(metadata) = Path::new(file).metadata() else { continue };
        match state {
            "kept" => {
                let program = LearnedProgram::new(file, &metadata, image["start_us"].as_f64(), None);
                learned.note(program);
            }
            "making" => {}
            why => learned.note(LearnedProgram::new(file, &metadata, None, Some(why.to_owned()))),
        }
    }
}

fn start_of(status: &Value, file: &str) -> Option<f64> {
    let wanted = Path::new(file).metadata().ok()?;
    let is_it = |other: &Metadata| {
        use std::os::unix::fs::MetadataExt;
        (other.dev(), other.ino()) == (wanted.dev(), wanted.ino())
    };
    let images = status["images"].as_array()?;
    let image = images.iter().find(|image| {
        let file = image["file"].as_str().map(Path::new);
        file.and_then(|file| file.metadata().ok()).is_some_and(|file| is_it(&file))
    })?;
    image["start_us"].as_f64()
}

/// What the smallest program takes by exec and by a launcher, in microseconds, of runs in turn. The quarter that is quickest tells: the others
/// have waited for a processor.
fn measure(place: &EnvPlace) -> Option<(f64, f64)> {
    let (folder, client) = place.measured();
    std::fs::create_dir_all(&folder).ok()?;
    link::make_launchers(&folder, [std::ffi::OsStr::new("true")], &client).ok()?;
    let launcher = folder.join("true");
    for run in 0..WARM_UP {
        once(&launcher)?;
        if run + 2 == WARM_UP {
            std::thread::sleep(IMAGE_TIME);
        }
    }
    let (mut by_exec, mut by_launcher) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        by_exec.push(once(Path::new(SMALLEST))?);
        by_launcher.push(once(&launcher)?);
    }
    Some((lower_quartile(by_exec), lower_quartile(by_launcher)))
}

fn once(program: &Path) -> Option<Duration> {
    let began = Instant::now();
    // As a shell would start it: by its name, with the launcher's folder in front of PATH.
    let folder = program.parent().unwrap_or(Path::new("/"));
    let path = [folder.as_os_str(), std::ffi::OsStr::new("/usr/bin:/bin")].join(std::ffi::OsStr::new(":"));
    let mut command = Command::new(program);
    command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).arg0("true");
    let status = command.status().ok()?;
    status.success().then(|| began.elapsed())
}

fn lower_quartile(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 4).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::learned::Verdict;
    use serde_json::json;

    #[test]
    fn what_the_daemon_says_of_its_images_is_noted() {
        let status = json!({"images": [
            {"file": "/bin/cat", "state": "kept", "start_us": 700.0},
            {"file": "/bin/ls", "state": "2 threads at main", "start_us": null},
            {"file": "/bin/mv", "state": "making", "start_us": null},
            {"file": "/nonexistent", "state": "kept", "start_us": 1.0},
        ]});
        let mut learned = Learned::default();
        note_images(&mut learned, &status);
        let files: Vec<&str> = learned.programs.iter().map(|program| program.file.as_str()).collect();
        assert_eq!(files, ["/bin/cat", "/bin/ls"]);
        let ls = Path::new("/bin/ls").metadata().unwrap();
        assert_eq!(learned.verdict(&ls), Some(Verdict::Refused("2 threads at main".to_owned())));
        assert_eq!(start_of(&status, "/usr/bin/cat"), Some(700.0));
        assert_eq!(start_of(&status, "/bin/true"), None);
    }
}
