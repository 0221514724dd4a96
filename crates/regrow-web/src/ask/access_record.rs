//! What the gateway records of each request: a line of the access log, and the counters.

use std::rc::Rc;
use std::time::Instant;

use crate::access_log::AccessLine;
use crate::gateway::Gateway;

/// The record of a request. Writes itself when it is dropped, at the end of the reply.
pub(crate) struct AccessRecord {
    gateway: Rc<Gateway>,
    client: String,
    /// The first line of the request.
    pub(crate) request: String,
    began: Instant,
    /// The status of the reply; 499 if the client goes before there is one.
    pub(crate) status: u16,
    /// The length of the reply's body.
    pub(crate) bytes: u64,
}

impl AccessRecord {
    /// Begins the record of a request that has just come.
    pub(crate) fn new(gateway: &Rc<Gateway>, client: String, request: String) -> Self {
        Self { gateway: Rc::clone(gateway), client, request, began: Instant::now(), status: 499, bytes: 0 }
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        let AccessRecord { client, request, status, bytes, .. } = &*self;
        self.gateway.metrics.reply(*status, self.began.elapsed().as_secs_f64(), *bytes);
        self.gateway.access_log.write(&AccessLine { client, request, status: *status, bytes: *bytes });
    }
}
