//! How a daemon works.

use std::time::Duration;

use regrow_engine::settings::Settings;

/// A daemon changes no limit, niceness or the like of its own, which its runs inherit. It looks this often whether somebody else has.
const REREAD_AFTER: Duration = Duration::from_millis(100);

/// How a daemon works.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The pool's settings.
    pub pool: Settings,
    /// Most clients at a time.
    pub max_clients: usize,
    /// Most runs at a time; a client that asks for one more is to execute the program itself.
    pub max_runs: usize,
    /// How long the daemon stays without a client; `None` for ever.
    pub idle: Option<Duration>,
    /// Serve clients of other control groups too: their runs are accounted to the daemon's.
    pub any_cgroup: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            pool: Settings {
                shells: false,
                local_files_only: true,
                reread_after: REREAD_AFTER,
                ..Settings::default()
            },
            max_clients: 512,
            max_runs: 128,
            idle: Some(Duration::from_secs(600)),
            any_cgroup: false,
        }
    }
}
