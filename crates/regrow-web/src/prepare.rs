//! The images that a gateway makes before its first request, and again at each reload.
//!
//! Making them takes long. A request that came meanwhile would wait as long, so the gateway listens only afterwards.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use regrow::{Command, Point, Pool};

use crate::ask::{function, target, variables};
use crate::error::WebError;
use crate::gateway::Gateway;
use crate::job::{RequestJob, folder_of, program_of};
use crate::request_body::StdinSource;
use crate::serve::content_check::{ImportCheck, check_program};
use crate::settings::Content;

/// The most scripts of a folder that get an image before the first request.
const MAX_PREPARED: usize = 64;

/// What a pool needs to make an image of everything that the gateway serves. It can be sent to another thread.
pub(crate) struct Preparation {
    pool: Pool,
    /// Each with its name in the log.
    commands: Vec<(String, Command)>,
    /// The program without which the gateway can serve nothing, and the folders of its search.
    program: Option<(OsString, Option<Vec<u8>>)>,
    /// Tells why the application has no warm image.
    import: Option<ImportCheck>,
}

impl Preparation {
    pub(crate) fn new(gateway: &Gateway, pool: &Pool) -> Self {
        let launcher = &gateway.launcher;
        let jobs = jobs(gateway);
        let only = jobs.first().filter(|_| !matches!(gateway.settings.content, Content::Directory(_)));
        let program = only.map(|job| (program_of(&job.command).into(), launcher.search_path(job)));
        let import = only.and_then(|job| launcher.import_check(job));
        let command =
            |job: &RequestJob| Some((job.name.to_string(), launcher.prepared_command(pool, job).ok()?));
        Self { pool: pool.clone(), commands: jobs.iter().filter_map(command).collect(), program, import }
    }

    /// Makes the images, one after the other.
    ///
    /// # Errors
    ///
    /// When there is no program, or the application cannot be imported. What has no image for another reason is executed.
    pub(crate) fn make(self) -> Result<(), WebError> {
        if let Some((program, path)) = &self.program {
            check_program(program, path.as_deref())?;
        }
        let points: Vec<_> =
            self.commands.iter().map(|(name, command)| prepare(&self.pool, name, command)).collect();
        match self.import {
            // Only a warm image has the application imported.
            Some(import) if points.iter().any(|point| *point != Some(Point::Warm)) => import.run(),
            _ => Ok(()),
        }
    }
}

/// Makes the image that the first process of a command starts from. Returns its point.
fn prepare(pool: &Pool, name: &str, command: &Command) -> Option<Point> {
    let made = pool.prepare(command);
    match &made {
        Ok(point) => tracing::info!(name, %point, "prepared"),
        Err(error) => tracing::info!(name, %error, "not prepared"),
    }
    made.ok()
}

/// A job for each thing that the gateway serves.
fn jobs(gateway: &Gateway) -> Vec<RequestJob> {
    let job = |command: Vec<OsString>, directory| {
        RequestJob::new(command, directory, variables::of_all_requests(), StdinSource::Empty)
    };
    let of_program = |command: Vec<OsString>| {
        let directory = folder_of(program_of(&command));
        job(command, directory)
    };
    match &gateway.settings.content {
        Content::Directory(_) => {
            let scripts = scripts(&gateway.root).into_iter().take(MAX_PREPARED);
            scripts.map(|script| of_program(vec![script.into_os_string()])).collect()
        }
        Content::Program(command) => vec![of_program(command.clone())],
        Content::Function(function) => {
            let job = of_program(function.command.clone());
            vec![RequestJob { variables: function::own_variables(), ..job }]
        }
        Content::Application(_) => {
            let directory = Some(gateway.root.clone());
            vec![gateway.launcher.application_job(
                directory,
                variables::of_all_requests(),
                StdinSource::Empty,
            )]
        }
    }
}

/// The files below a folder that requests can name, in the order of their paths.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut scripts = Vec::new();
    for path in paths {
        if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            scripts.extend(self::scripts(&path));
        } else if target::runnable(folder, &path).is_ok() {
            scripts.push(path);
        }
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn scripts_are_found_in_all_folders_but_hidden_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path");
        for (name, mode) in [("b.pl", 0o755), ("a/c.pl", 0o755), ("plain", 0o644), (".hidden/d.pl", 0o755)] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, "").expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        assert_eq!(scripts(&root), [root.join("a/c.pl"), root.join("b.pl")]);
        assert!(scripts(&root.join("none")).is_empty());
    }
}
