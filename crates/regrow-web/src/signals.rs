//! The signals of a gateway: SIGTERM and SIGINT stop it, SIGHUP has it reload, SIGUSR1 has it open its log again.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::WebError;

/// The handlers of a gateway's signals.
pub(crate) struct GatewaySignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
    /// A process that closes its standard input early must not kill the gateway. Processes inherit an ignored signal but no
    /// handler, so this is a handler.
    _pipe: Signal,
}

impl GatewaySignals {
    /// Installs the handlers.
    pub(crate) fn new() -> Result<Self, WebError> {
        let handled = |kind| {
            signal(kind).map_err(|source| WebError::System { what: "signals cannot be handled", source })
        };
        Ok(Self {
            terminate: handled(SignalKind::terminate())?,
            interrupt: handled(SignalKind::interrupt())?,
            hangup: handled(SignalKind::hangup())?,
            user: handled(SignalKind::user_defined1())?,
            _pipe: handled(SignalKind::pipe())?,
        })
    }

    /// Waits for a signal to stop. Calls `reload` at each SIGHUP before, and `reopen` at each SIGUSR1.
    pub(crate) async fn wait_for_stop(mut self, reload: impl Fn(), reopen: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => reload(),
                _ = self.user.recv() => reopen(),
            }
        }
    }
}
