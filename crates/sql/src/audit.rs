//! The audit log: what connections and statements tell it, and when they wait for it.
//!
//! # Owns
//! [`AuditLog`], the host's side; which events there are and what is in them (`event`), which of
//! them are wanted (`filter`), what of a statement's text may be seen (`secret`), what sessions
//! tell (`session`).
//! # Guarantees
//! No password of a statement is in it. Without a log nothing is computed for it. A statement is
//! told when it has ended and before it is answered for, by the settings that held when it began.
//! # Not here
//! Files and their rotation, times and numbers of events: the host.

mod event;
mod filter;
pub(crate) mod secret;
pub(crate) mod session;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Figures, Metric};
use stdx::Duration;

use crate::directory::Directory;
use crate::kernel::Kernel;

use event::Event;
pub use filter::CLASSES;
pub(crate) use filter::FLUSH;
use filter::Filter;

/// How long to wait before it is looked again whether an event has been written.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What an event has to have reached before its statement is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: it may be lost when the log is slow.
    #[default]
    Nowhere,
    /// The system.
    Written,
    /// The disk.
    Synced,
}

/// Sizes of files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditLimits {
    /// A file that is as large is put aside and another begun; 0 for never.
    pub rotate_on_size: u64,
    /// The oldest files go when all are larger together; 0 for never.
    pub max_size: u64,
}

/// What the log has done since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditFigures {
    /// Events that were written.
    pub written: u64,
    /// Events that were not, as the log was too slow or full.
    pub lost: u64,
    /// Bytes of the present file.
    pub current_size: u64,
    /// Bytes of all events that were written.
    pub total_size: u64,
}

/// The host's audit log. It writes aside, in the order in which it is given events.
pub trait AuditLog: fmt::Debug + Send + Sync {
    /// Takes an event: members of a JSON object, to which time and number are added. An event that
    /// somebody waits for is not lost. Its number.
    fn write(&self, event: &str, kept: Kept) -> u64;

    /// Whether an event has been written so far.
    fn has_reached(&self, number: u64, kept: Kept) -> bool;

    /// Closes the file and opens it by its name.
    fn flush(&self);

    /// Sets sizes of files.
    fn limit(&self, limits: AuditLimits);

    /// What it has done.
    fn figures(&self) -> AuditFigures;
}

/// The log as a worker uses it.
#[derive(Debug)]
pub(crate) struct Auditor {
    pub(crate) log: Arc<dyn AuditLog>,
    /// What is wanted, with the version of the global variables that say so.
    filter: RefCell<Option<(u64, Rc<Filter>)>>,
}

impl Auditor {
    pub(crate) fn new(log: Arc<dyn AuditLog>) -> Self {
        Self { log, filter: RefCell::default() }
    }

    /// What is wanted now.
    fn filter(&self, directory: &Directory) -> Rc<Filter> {
        let registry = directory.lock();
        let mut kept = self.filter.borrow_mut();
        if let Some((version, filter)) = kept.as_ref()
            && *version == registry.globals_version
        {
            return filter.clone();
        }
        let filter = Rc::new(Filter::of(&registry.globals));
        self.log.limit(filter.limits);
        *kept = Some((registry.globals_version, filter.clone()));
        filter
    }

    async fn tell(&self, kernel: &Kernel, event: &Event<'_>, kept: Kept) {
        let number = self.log.write(&event.to_string(), kept);
        while kept != Kept::Nowhere && !self.log.has_reached(number, kept) {
            // Whoever ends the statement ends the wait.
            if kernel.sleep(LOOK_AGAIN).await.is_err() {
                return;
            }
        }
    }
}

/// A statement that is to be told when it has ended, with what was wanted when it began.
pub(crate) struct Audited(Rc<Filter>);

/// A connection whose end is told when this is dropped.
#[derive(Debug)]
pub(crate) struct AuditedConnection {
    log: Arc<dyn AuditLog>,
    end: String,
}

impl Drop for AuditedConnection {
    fn drop(&mut self) {
        self.log.write(&self.end, Kept::Nowhere);
    }
}

/// Whether a variable says what is in the log: it needs a privilege of its own.
pub(crate) fn is_of_log(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("audit_log_") || name == "nines_audit_log_statements"
}

/// Adds what has become of events.
pub(crate) fn tell(auditor: Option<&Auditor>, figures: &mut Figures) {
    let Some(auditor) = auditor else { return };
    let AuditFigures { written, lost, .. } = auditor.log.figures();
    figures.add(Metric::SqlAuditEvents, &["written"], written);
    figures.add(Metric::SqlAuditEvents, &["lost"], lost);
}
