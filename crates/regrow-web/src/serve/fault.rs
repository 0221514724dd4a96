//! Why the gateway has ended a process before its reply was complete.

use std::cell::RefCell;
use std::rc::Rc;

use crate::request_error::RequestError;

/// A place in which whoever ends a process leaves the reason. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Fault(Rc<RefCell<Option<RequestError>>>);

impl Fault {
    pub(crate) fn set(&self, error: RequestError) {
        *self.0.borrow_mut() = Some(error);
    }

    pub(crate) fn take(&self) -> Option<RequestError> {
        self.0.borrow_mut().take()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }
}
