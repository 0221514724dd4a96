//! Makes the image of a front end (`docs/warm.md`).
//!
//! ```text
//!  the run's environment ──> the part that belongs to the key ──> the front end prepares itself ──> stop
//!            ^                                                          │ names that it has read besides
//!            └──────────────── again, with those as well ───────────────┘
//! ```
//!
//! A front end gets the variables of its image's key and no others, so that an image holds nothing of one run's environment
//! that another run lacks. The engine learns which those are by making the image: when the front end asks for a variable that it
//! was not given, the engine makes the image again, with that variable.

use std::ffi::{CStr, OsString};
use std::os::unix::ffi::OsStringExt;

use regrow_front::channel::is_own_entry;
use regrow_front::report;
use regrow_image::envkey::KeyNames;
use regrow_image::image::Image;

use crate::image::attempt::{Job, attempt, fallback};
use crate::run::creation::{Fallback, Point};
use crate::run::front_end::FrontEnd;

/// How often the engine makes an image again because the front end has read more variables. Each time adds names, of which there
/// are few.
const MAX_ATTEMPTS: usize = 5;

/// Makes the image of a front end. Gives the names that belong to its key too.
pub(crate) fn make_image(
    job: &Job,
    env: &[&CStr],
    front_end: &FrontEnd,
) -> Result<(Image, KeyNames), Fallback> {
    let warm = front_end.execution()?;
    // Whoever starts it gives it the variables of its own.
    let env: Vec<&CStr> = env.iter().copied().filter(|entry| !is_own_entry(entry.to_bytes())).collect();
    let mut names = KeyNames::default().and_of_front_end(&warm.variables);
    for _ in 0..MAX_ATTEMPTS {
        let given = names.select(env.iter().copied());
        let image = attempt(job, &given, Point::Warm, true, Some(&warm));
        let mut image = image.map_err(fallback)?;
        let report = report::parse(&image.report)
            .map_err(|error| Fallback::ImageFailed { detail: format!("its report: {error}") })?;
        let mut read: Vec<Vec<u8>> = image.learned.clone();
        read.extend(report.env);
        if report.all_env {
            read.push(b"*".to_vec());
        }
        names =
            KeyNames::with_learned(&image.learned).and_of_front_end(&warm.variables).and_of_front_end(&read);
        if names.select(env.iter().copied()) == given {
            let paths = |list: Vec<Vec<u8>>| list.into_iter().map(|path| OsString::from_vec(path).into());
            image.dependencies.files.extend(paths(report.files));
            image.dependencies.absent.extend(paths(report.absent));
            return Ok((image, names));
        }
    }
    Err(Fallback::ImageFailed { detail: "it reads more variables each time it is prepared".to_owned() })
}
