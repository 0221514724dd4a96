//! The images that a gateway makes before its first request.
//!
//! Making them takes long. A request that came meanwhile would wait as long, so the gateway listens only afterwards.

use std::path::{Path, PathBuf};

use crate::ask::{target, variables};
use crate::gateway::Gateway;
use crate::job::{RequestJob, folder_of, program_of};
use crate::request_body::StdinSource;
use crate::settings::Content;

/// The most scripts of a folder that get an image before the first request.
const MAX_PREPARED: usize = 64;

/// Has the pool make an image of everything that the gateway serves.
pub(crate) fn prepare(gateway: &Gateway) {
    let commands = match &gateway.settings.content {
        Content::Directory(_) => {
            let scripts = scripts(&gateway.root).into_iter().take(MAX_PREPARED);
            scripts.map(|script| vec![script.into_os_string()]).collect()
        }
        Content::Program(command) => vec![command.clone()],
        Content::Function(function) => vec![function.command.clone()],
        Content::Application(_) => vec![gateway.launcher.application_command()],
    };
    for command in commands {
        let directory = folder_of(program_of(&command));
        let variables = variables::of_all_requests();
        gateway.launcher.prepare(&RequestJob::new(command, directory, variables, StdinSource::Empty));
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
