//! What the gateway records of each request: a line of the access log, and the counters.

use std::rc::Rc;
use std::time::Instant;

use crate::access_log::AccessLine;
use crate::gateway::Gateway;

/// The status of a request whose client has gone.
pub(crate) const CLIENT_GONE: u16 = 499;

/// The record of a request. Writes itself when it is dropped, at the end of the reply.
pub(crate) struct AccessRecord {
    gateway: Rc<Gateway>,
    client: String,
    /// The first line of the request.
    pub(crate) request: String,
    began: Instant,
    /// The status of a reply that was passed on whole; that of the error if the reply broke off; 499 if the client went before.
    pub(crate) status: u16,
    /// The length of the reply's body.
    pub(crate) bytes: u64,
}

impl AccessRecord {
    /// Begins the record of a request that has just come.
    pub(crate) fn new(gateway: &Rc<Gateway>, client: String, request: String) -> Self {
        Self {
            gateway: Rc::clone(gateway),
            client,
            request,
            began: Instant::now(),
            status: CLIENT_GONE,
            bytes: 0,
        }
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        let AccessRecord { client, request, status, bytes, .. } = &*self;
        self.gateway.metrics.reply(*status, self.began.elapsed().as_secs_f64(), *bytes);
        self.gateway.access_log.write(&AccessLine { client, request, status: *status, bytes: *bytes });
    }
}
