//! Where a model is kept: `sites/model` in the user's state folder.

use std::path::PathBuf;

/// The folder of the state of creation sites, `$XDG_STATE_HOME/regrow/sites` or `~/.local/state/regrow/sites`; `None` when the environment
/// names neither. Nothing is made.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    Some(regrow_sys::own_folder::state()?.join("sites"))
}
