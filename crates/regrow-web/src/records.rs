//! What is kept of each request: a line of the access log, and the metrics.

use std::rc::Rc;
use std::time::Instant;

use crate::access::Line;
use crate::gateway::Gateway;

/// What the log and the metrics are told of a request when its reply has ended, which is when this is dropped.
pub(crate) struct Record {
    gateway: Rc<Gateway>,
    client: String,
    /// The request's first line.
    pub(crate) request: String,
    began: Instant,
    /// Of the reply. Until there is one the client has gone: 499.
    pub(crate) status: u16,
    /// Of the reply's body.
    pub(crate) bytes: u64,
}

impl Record {
    /// Of a request that has just come.
    pub(crate) fn new(gateway: &Rc<Gateway>, client: String, request: String) -> Self {
        Self { gateway: Rc::clone(gateway), client, request, began: Instant::now(), status: 499, bytes: 0 }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let Record { client, request, status, bytes, .. } = &*self;
        self.gateway.metrics.reply(*status, self.began.elapsed().as_secs_f64(), *bytes);
        self.gateway.log.write(&Line { client, request, status: *status, bytes: *bytes });
    }
}
