//! What all connections share: the settings, the logs, and the launcher that starts processes.

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::access_log::AccessLog;
use crate::error::WebError;
use crate::metrics::WebMetrics;
use crate::serve::launcher::Launcher;
use crate::serve::unreaped::UnreapedProcess;
use crate::settings::{Content, GatewaySettings};

/// What all connections share.
pub(crate) struct Gateway {
    pub(crate) settings: Rc<GatewaySettings>,
    pub(crate) metrics: Rc<WebMetrics>,
    pub(crate) access_log: AccessLog,
    /// The folder of the scripts or of the application, without symbolic links. Other content has the root directory.
    pub(crate) root: PathBuf,
    pub(crate) launcher: Rc<Launcher>,
}

impl Gateway {
    /// Makes a gateway, and the queue of the processes that its reaper has to wait for.
    pub(crate) fn new(
        settings: GatewaySettings,
    ) -> Result<(Rc<Self>, UnboundedReceiver<UnreapedProcess>), WebError> {
        let settings = Rc::new(settings);
        let root = match &settings.content {
            Content::Directory(path) => resolved_folder(path)?,
            Content::Application(application) => resolved_folder(&application.directory)?,
            Content::Program(_) | Content::Function(_) => PathBuf::from("/"),
        };
        let access_log = AccessLog::open(settings.access_log.clone()).map_err(|source| WebError::Path {
            path: settings.access_log.clone().unwrap_or_default(),
            what: "the access log cannot be written",
            source,
        })?;
        let metrics = Rc::new(WebMetrics::new());
        let (launcher, unreaped) = Launcher::new(Rc::clone(&settings), Rc::clone(&metrics), &root)?;
        let gateway = Self { settings, metrics, access_log, root, launcher: Rc::new(launcher) };
        Ok((Rc::new(gateway), unreaped))
    }

    /// Opens the access log again, after somebody has moved it away.
    pub(crate) fn reopen_log(&self) {
        match self.access_log.reopen() {
            Ok(()) => tracing::info!("the access log is opened again"),
            Err(error) => tracing::error!(%error, "the access log cannot be opened again"),
        }
    }
}

/// The path of a folder without symbolic links.
fn resolved_folder(path: &Path) -> Result<PathBuf, WebError> {
    let cannot = |what| move |source| WebError::Path { path: path.to_owned(), what, source };
    let folder = path.canonicalize().map_err(cannot("there is no such folder"))?;
    if !folder.is_dir() {
        return Err(cannot("is no folder")(io::ErrorKind::NotADirectory.into()));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_a_folder_without_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("its path").join("real");
        std::fs::create_dir(&real).expect("a folder");
        std::os::unix::fs::symlink(&real, folder.path().join("link")).expect("a link");
        assert_eq!(resolved_folder(&folder.path().join("link")).expect("a folder"), real);
        std::fs::write(real.join("file"), "").expect("a file");
        assert!(
            resolved_folder(&real.join("file"))
                .is_err_and(|error| error.to_string().ends_with("is no folder"))
        );
        assert!(resolved_folder(&real.join("none")).is_err());
    }
}
