//! Pauses in the middle of a computation.
//!
//! # Owns
//! [`Pauses`], what binding and evaluation call now and then; [`STEPS`], how often that is.
//! # Not here
//! Whether the time is over, and who runs meanwhile: whoever makes them.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use crate::error::SqlError;

/// How much is done between two looks: so many small parts of expressions, or two hundred times as
/// many bytes of text.
pub(crate) const STEPS: u64 = 512;
/// Bytes of text that take as long as a small part of an expression.
pub(crate) const STEP_BYTES: u64 = 256;

/// Parts of expressions that are gone over, without being computed, between two looks.
const PARTS: u64 = 1_024;

/// Lets others have the worker in the middle of a computation, when it has had that for long.
#[derive(Clone, Default)]
pub struct Pauses {
    look: Option<Look>,
    /// Parts of expressions that have been gone over since the last look.
    parts: Cell<u64>,
}

type Look = Rc<dyn Fn() -> Result<(), SqlError>>;

impl Pauses {
    /// Calls this now and then.
    pub fn new(look: Rc<dyn Fn() -> Result<(), SqlError>>) -> Self {
        Self { look: Some(look), parts: Cell::new(0) }
    }

    /// Does some work that looks now and then, and ends early when it is told so.
    ///
    /// # Errors
    /// The look's that has ended it: what was made is not given.
    pub fn looking<T>(&self, work: impl FnOnce(&dyn Fn() -> bool) -> T) -> Result<T, SqlError> {
        let ended = RefCell::new(None);
        let made = work(&|| match self.look() {
            Ok(()) => true,
            Err(error) => {
                ended.replace(Some(error));
                false
            }
        });
        ended.into_inner().map_or(Ok(made), Err)
    }

    /// Counts so many parts of expressions as gone over, and looks now and then: to be called where
    /// nothing is borrowed that others need.
    ///
    /// # Errors
    /// The computation is to end, with this error; the next look has it again.
    pub fn count(&self, parts: u64) -> Result<(), SqlError> {
        let parts = self.parts.get() + parts;
        let is_due = parts >= PARTS;
        self.parts.set(if is_due { 0 } else { parts });
        if is_due { self.look() } else { Ok(()) }
    }

    /// To be called where nothing is borrowed that others need.
    ///
    /// # Errors
    /// The computation is to end, with this error.
    pub fn look(&self) -> Result<(), SqlError> {
        self.look.as_ref().map_or(Ok(()), |look| look())
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.look.is_some() { "Pauses" } else { "no pauses" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document of which not all was read is not invalid: nothing is known of it.
    #[test]
    fn what_was_ended_has_no_value() {
        let killed = || SqlError::new(1317, "70100", "Query execution was interrupted");
        let looks = Rc::new(Cell::new(0));
        let counted = looks.clone();
        let pauses = Pauses::new(Rc::new(move || {
            counted.set(counted.get() + 1);
            // Whoever asks again is told that all is well.
            if counted.get() == 2 { Err(killed()) } else { Ok(()) }
        }));
        assert_eq!(pauses.looking(|look| look()), Ok(true));
        assert_eq!(pauses.looking(|look| (look(), look())), Err(killed()));
        assert_eq!(pauses.looking(|look| look()), Ok(true));
        let parts = (0..4).map(|_| pauses.count(PARTS / 2).is_ok()).filter(|ok| *ok).count();
        assert_eq!((parts, looks.get()), (4, 6));
    }
}
