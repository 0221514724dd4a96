//! The life of a gateway: it prepares images, listens, waits for a signal, and stops.
//!
//! ```text
//!  signals ── gateway ── supervisor ── prepare ── listeners ── lock file ── … SIGTERM ── no new connections ── grace ── end
//! ```

use std::time::Duration;

use tokio::runtime::LocalOptions;
use tokio::time::{sleep, timeout};

use crate::error::WebError;
use crate::gateway::Gateway;
use crate::health_file::HealthFile;
use crate::listeners::Listeners;
use crate::prepare::Preparation;
use crate::reload::Reloads;
use crate::serve::supervisor::Supervisor;
use crate::settings::{Content, GatewaySettings};
use crate::signals::GatewaySignals;

/// How often a gateway that stops looks whether it is done.
const STOP_POLL: Duration = Duration::from_millis(5);

/// Serves until a signal stops the gateway. Calls `listening` with each address as soon as the gateway listens there.
///
/// # Errors
///
/// When the gateway cannot listen at an address, cannot use a file or folder of the settings, or cannot load what it is to serve.
pub fn serve(settings: GatewaySettings, listening: impl FnMut(&str)) -> Result<(), WebError> {
    if settings.http.is_empty() && settings.fastcgi.is_empty() {
        return Err(WebError::Setting("there is no address to serve at"));
    }
    if matches!(settings.content, Content::Function(_)) && !settings.fastcgi.is_empty() {
        return Err(WebError::Setting("functions are served by HTTP, not by FastCGI"));
    }
    let cannot = |what| move |source| WebError::System { what, source };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(cannot("the event loop cannot be made"))?;
    runtime.block_on(run(settings, listening))
}

/// Makes the images. Returns the error of content that cannot be loaded, unless the settings want the gateway to serve in any case.
fn prepare(gateway: &Gateway) -> Result<(), WebError> {
    match Preparation::new(gateway, &gateway.launcher.pools().current()).make() {
        Err(error) if gateway.settings.start_anyway => {
            tracing::error!("serves, although {error}");
            Ok(())
        }
        made => made,
    }
}

async fn run(settings: GatewaySettings, listening: impl FnMut(&str)) -> Result<(), WebError> {
    // An image inherits which signals are ignored, so the handlers come before the first image.
    let signals = GatewaySignals::new()?;
    let (gateway, unreaped) = Gateway::new(settings)?;
    let supervisor = Supervisor::start(&gateway.launcher, unreaped).map_err(|source| WebError::System {
        what: "the gateway cannot become the parent of the processes that scripts leave behind",
        source,
    })?;
    prepare(&gateway)?;
    let listeners = Listeners::open(&gateway, listening).await?;
    let health_file = HealthFile::new(gateway.settings.content.function())?;
    let reloads = Reloads::start(&gateway);
    let reload = || {
        gateway.reopen_log();
        reloads.ask();
    };
    signals.wait_for_stop(reload, || gateway.reopen_log()).await;
    drop(health_file);
    listeners.close();
    let done = async {
        while listeners.connections() > 0 || supervisor.is_busy() {
            sleep(STOP_POLL).await;
        }
    };
    if timeout(gateway.settings.limits.grace, done).await.is_err() {
        tracing::warn!(connections = listeners.connections(), "running requests are broken off");
    }
    supervisor.end_all().await;
    Ok(())
}
