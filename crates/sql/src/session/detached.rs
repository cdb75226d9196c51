//! Work that a task of its own is to do, for no connection.
//!
//! # Owns
//! [`Detached`], which statements leave with the worker.
//! # Not here
//! Who runs it (`node`), what it does (`backup`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::kernel::Kernel;
use crate::session::Shared;

/// Makes the task from its way to the cluster and what the connections of the worker share.
type Begin = Box<dyn FnOnce(Kernel, Rc<Shared>) -> Pin<Box<dyn Future<Output = ()>>>>;

/// Work that no connection waits for.
pub(crate) struct Detached(pub(crate) Begin);

impl fmt::Debug for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detached")
    }
}
