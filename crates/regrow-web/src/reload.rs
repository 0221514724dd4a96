//! Reloads: the gateway makes a pool with fresh images, and answers from the old one until they are there.
//!
//! ```text
//!  SIGHUP ──> a thread makes the images ──> the next request comes from them
//!                └── the content cannot be loaded: the gateway keeps what it has, and logs the cause
//! ```

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use crate::error::WebError;
use crate::gateway::Gateway;
use crate::prepare::Preparation;

/// Takes requests to reload. Several that come during one reload become one.
pub(crate) struct Reloads(Arc<Notify>);

impl Reloads {
    /// Starts the task that reloads.
    pub(crate) fn start(gateway: &Rc<Gateway>) -> Self {
        let asked = Arc::new(Notify::new());
        let (gateway, notified) = (Rc::clone(gateway), Arc::clone(&asked));
        tokio::task::spawn_local(async move {
            loop {
                notified.notified().await;
                match reload(&gateway).await {
                    Ok(()) => tracing::info!("reloaded"),
                    Err(error) => {
                        let cause = std::error::Error::source(&error).map(ToString::to_string);
                        tracing::error!(cause, "not reloaded: {error}");
                    }
                }
            }
        });
        Self(asked)
    }

    /// Asks for a reload.
    pub(crate) fn ask(&self) {
        self.0.notify_one();
    }
}

async fn reload(gateway: &Gateway) -> Result<(), WebError> {
    let launcher = &gateway.launcher;
    let pool = launcher.new_pool();
    let preparation = Preparation::new(gateway, &pool);
    let making = launcher.pools().making();
    in_thread(move || preparation.make()).await?;
    drop(making);
    launcher.pools().replace(pool, &launcher.under_way().groups());
    Ok(())
}

/// Has a thread make something, because the loop has requests to answer meanwhile.
async fn in_thread(make: impl FnOnce() -> Result<(), WebError> + Send + 'static) -> Result<(), WebError> {
    let cannot = |source| WebError::System { what: "there is no thread for a reload", source };
    let (sender, made) = oneshot::channel();
    // The gateway that stops meanwhile does not wait for this thread.
    let thread = std::thread::Builder::new().name("regrow-reload".to_owned());
    thread.spawn(move || drop(sender.send(make()))).map_err(cannot)?;
    made.await.map_err(|_| cannot(io::ErrorKind::BrokenPipe.into()))?
}
