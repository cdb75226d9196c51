//! What statements keep in memory, and how much they may.
//!
//! # Owns
//! [`QueryMemory`], the budget of an SQL node, shared by its workers; [`Account`], what one
//! connection has of it; [`Held`], what one operator has of that.
//! # Guarantees
//! What is held is given back when it is dropped: at the end of a statement, after an error, and
//! when the connection is gone. A statement that would go over a limit fails with 3170; the others
//! do not notice.
//! # Limits
//! For one operator `nines_operator_memory`, for a connection `connection_memory_limit`, for the
//! node `QueryMemory` or `global_connection_memory_limit`.
//! # Not here
//! What operators charge: estimates of what they keep from one batch to the next. Batches on their
//! way are bounded by their size, packets by `max_allowed_packet`.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sql_expression::SqlError;

use crate::spill::{TempBooks, TempSpace};

/// What a connection has beside the budget, so that small statements run when it is used up.
const OWN_BYTES: u64 = 256 << 10;
/// What a connection takes of the budget at a time.
const STEP_BYTES: u64 = 64 << 10;
/// What a connection keeps of the budget although it does not need it just now.
const SPARE_BYTES: u64 = 1 << 20;

/// What an operator may hold whatever is left of the budget, where the rest of its rows may go to
/// temporary files: with less it would write and read them too often.
const SPILLING_BYTES: usize = 512 << 10;

const _: () = assert!(SPARE_BYTES >= 2 * STEP_BYTES, "taking and giving back would alternate");

/// The memory that all statements of an SQL node may keep.
#[derive(Clone, Debug)]
pub struct QueryMemory(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    limit: AtomicU64,
    /// What the host has given as the limit.
    configured: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
    /// Where goes what does not fit.
    temp: TempSpace,
}

impl Default for QueryMemory {
    /// Without a limit.
    fn default() -> Self {
        Self(Arc::new(Budget {
            limit: AtomicU64::new(u64::MAX),
            configured: AtomicU64::new(u64::MAX),
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            temp: TempSpace::default(),
        }))
    }
}

impl QueryMemory {
    /// Sets the limit that the node starts with, in bytes.
    pub fn configure(&self, bytes: u64) {
        self.0.configured.store(bytes, Ordering::Relaxed);
        self.set_limit(bytes);
    }

    /// Sets the limit, in bytes. What is held already stays.
    pub fn set_limit(&self, bytes: u64) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }

    /// The limit that the node started with, in bytes.
    pub fn configured(&self) -> u64 {
        self.0.configured.load(Ordering::Relaxed)
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Bytes that connections have of it.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// The most that has been used at a time.
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// How often a statement was refused more, for this limit or one of its own.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// The disk space for what does not fit.
    pub fn temp_space(&self) -> &TempSpace {
        &self.0.temp
    }

    /// Takes so much whatever the limit is.
    fn overdraw(&self, bytes: u64) {
        let before = self.0.used.fetch_add(bytes, Ordering::Relaxed);
        self.0.peak.fetch_max(before + bytes, Ordering::Relaxed);
    }

    /// Takes so much; false if there is not enough.
    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit();
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let before = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(before) = before {
            self.0.peak.fetch_max(before + bytes, Ordering::Relaxed);
        }
        before.is_ok()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes given back of {before} that were taken");
    }
}

/// What a connection keeps in memory for its statements. Clones are of the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Account(Rc<Books>);

#[derive(Debug)]
struct Books {
    node: QueryMemory,
    used: Cell<u64>,
    /// What of it is taken from the node.
    taken: Cell<u64>,
    /// The most that was used since the statement began.
    peak: Cell<u64>,
    limit: Cell<u64>,
    operator_limit: Cell<u64>,
    temp: TempBooks,
}

impl Drop for Books {
    fn drop(&mut self) {
        self.node.give_back(self.taken.get());
    }
}

impl Account {
    /// An account with nothing in it, and no limit but the node's.
    pub(crate) fn new(node: &QueryMemory) -> Self {
        Self(Rc::new(Books {
            node: node.clone(),
            used: Cell::new(0),
            taken: Cell::new(0),
            peak: Cell::new(0),
            limit: Cell::new(u64::MAX),
            operator_limit: Cell::new(u64::MAX),
            temp: TempBooks::new(node.temp_space()),
        }))
    }

    /// What of it is in temporary files.
    pub(crate) fn temp(&self) -> &TempBooks {
        &self.0.temp
    }

    /// A statement begins, with so many bytes for it and for each of its operators.
    pub(crate) fn begin(&self, limit: u64, operator_limit: u64) {
        self.0.limit.set(limit);
        self.0.operator_limit.set(operator_limit);
        self.0.peak.set(self.0.used.get());
    }

    /// Bytes that are held.
    pub(crate) fn used(&self) -> u64 {
        self.0.used.get()
    }

    /// The most that was held since the statement began.
    pub(crate) fn peak(&self) -> u64 {
        self.0.peak.get()
    }

    /// How much more can be held now.
    pub(crate) fn available(&self) -> u64 {
        let books = &*self.0;
        let of_node = books.node.limit().saturating_sub(books.node.used());
        let there = OWN_BYTES.saturating_add(books.taken.get()).saturating_sub(books.used.get());
        books.limit.get().saturating_sub(books.used.get()).min(there.saturating_add(of_node))
    }

    /// Nothing yet, for something that errors name so.
    pub(crate) fn hold(&self, what: &'static str) -> Held {
        let account = self.clone();
        Held { account, bytes: 0, what, is_lenient: false, is_of_operator: false }
    }

    /// The same for an operator of a statement.
    pub(crate) fn hold_for_operator(&self, what: &'static str) -> Held {
        let mut held = self.hold(what);
        held.is_of_operator = true;
        held
    }

    fn count_refused(&self) {
        self.0.node.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// One holds `new` bytes instead of `old`.
    fn change(&self, old: u64, new: u64, what: &str) -> Result<(), SqlError> {
        let books = &*self.0;
        let used = books.used.get() - old + new;
        if new > old {
            self.check(new, used, what)?;
            books.peak.set(books.peak.get().max(used));
        }
        books.used.set(used);
        let (needed, taken) = (used.saturating_sub(OWN_BYTES), books.taken.get());
        if needed == 0 && taken > 0 || taken - needed.min(taken) > SPARE_BYTES {
            let kept = needed.next_multiple_of(STEP_BYTES);
            books.node.give_back(taken - kept);
            books.taken.set(kept);
        }
        Ok(())
    }

    /// Whether so much may be used, `new` of it by one; takes what is missing from the node.
    fn check(&self, new: u64, used: u64, what: &str) -> Result<(), SqlError> {
        let books = &*self.0;
        let (limit, what, remedy) = if new > books.operator_limit.get() {
            let remedy = "Have the query keep fewer rows, or raise nines_operator_memory.";
            (books.operator_limit.get(), what.to_owned(), remedy)
        } else if used > books.limit.get() {
            let remedy = "Have the statement keep less, or raise connection_memory_limit.";
            (books.limit.get(), format!("the connection, by {what}"), remedy)
        } else {
            let missing = used.saturating_sub(OWN_BYTES).saturating_sub(books.taken.get());
            if missing == 0 {
                return Ok(());
            }
            for step in [missing.next_multiple_of(STEP_BYTES), missing] {
                if books.node.take(step) {
                    books.taken.set(books.taken.get() + step);
                    return Ok(());
                }
            }
            let remedy = "Have the statement keep less, run fewer of them at a time, or raise \
                          QueryMemory (SET GLOBAL global_connection_memory_limit).";
            let what = format!("all statements of the SQL node, by {what}");
            (books.node.limit(), what, remedy)
        };
        Err(SqlError::of::<3170>(&[&limit, &what, &remedy]))
    }

    /// One holds `new` bytes instead of `old`, whatever the limits are.
    fn overdraw(&self, old: u64, new: u64) {
        let books = &*self.0;
        let used = books.used.get() - old + new;
        let missing = used.saturating_sub(OWN_BYTES).saturating_sub(books.taken.get());
        if missing > 0 {
            books.node.overdraw(missing);
            books.taken.set(books.taken.get() + missing);
        }
        books.peak.set(books.peak.get().max(used));
        books.used.set(used);
    }
}

/// Bytes that are held for something, until they are dropped.
#[derive(Debug)]
pub(crate) struct Held {
    account: Account,
    bytes: usize,
    what: &'static str,
    /// The limits do not count for now.
    is_lenient: bool,
    /// An operator of a statement holds it, of which there are few at a time.
    is_of_operator: bool,
}

impl Held {
    /// How much it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds so much from now on.
    ///
    /// # Errors
    /// 3170 if that is more than before and over a limit; as much as before is held then.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), SqlError> {
        if self.is_lenient && bytes > self.bytes {
            self.force(bytes - self.bytes);
            return Ok(());
        }
        if bytes != self.bytes {
            let changed = self.account.change(self.bytes as u64, bytes as u64, self.what);
            if changed.is_err() && self.may_exceed(bytes) {
                self.force(bytes - self.bytes);
                return Ok(());
            }
            changed.inspect_err(|_| self.account.count_refused())?;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Holds so much more if it may; false if rows are to go to temporary files first. At least
    /// [`SPILLING_BYTES`] may always be held then.
    ///
    /// # Errors
    /// 3170 if that is over a limit, and there are no temporary files.
    pub(crate) fn fits(&mut self, bytes: usize) -> Result<bool, SqlError> {
        if self.is_lenient {
            self.force(bytes);
            return Ok(true);
        }
        let more = self.bytes.saturating_add(bytes);
        match self.account.change(self.bytes as u64, more as u64, self.what) {
            Ok(()) => {
                self.bytes = more;
                Ok(true)
            }
            Err(error) if !self.account.temp().may_spill() => {
                self.account.count_refused();
                Err(error)
            }
            Err(_) if self.may_exceed(more) => {
                self.force(bytes);
                Ok(true)
            }
            Err(_) => Ok(false),
        }
    }

    /// Whether so much may be held although it is over a limit: an operator that holds little has
    /// it where the rest of the memory is used by others, who spill.
    fn may_exceed(&self, bytes: usize) -> bool {
        self.is_of_operator && bytes <= SPILLING_BYTES && self.account.temp().may_spill()
    }

    /// Holds so much more, whatever the limits are: for what must be there for a moment while rows
    /// go to temporary files.
    pub(crate) fn force(&mut self, bytes: usize) {
        let more = self.bytes + bytes;
        self.account.overdraw(self.bytes as u64, more as u64);
        self.bytes = more;
    }

    /// Whether more may be held from now on than the limits allow, as by [`Held::force`].
    pub(crate) fn be_lenient(&mut self, is_lenient: bool) {
        self.is_lenient = is_lenient;
    }

    /// Of which connection it is.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// What it is for.
    pub(crate) fn what(&self) -> &'static str {
        self.what
    }

    /// Holds so much more.
    ///
    /// # Errors
    /// 3170 if that is over a limit.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), SqlError> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Holds what another has held.
    pub(crate) fn take_over(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Gives up the share of `gone` of so many things.
    pub(crate) fn give_up(&mut self, gone: usize, of: usize) {
        if of == 0 {
            return;
        }
        let share = self.bytes as u128 * gone.min(of) as u128 / of as u128;
        let left = self.bytes - share as usize;
        self.shrink(left);
    }

    /// Gives up so many bytes, or all there are.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.shrink(self.bytes.saturating_sub(bytes));
    }

    fn shrink(&mut self, bytes: usize) {
        let smaller = self.account.change(self.bytes as u64, bytes as u64, self.what);
        assert!(smaller.is_ok(), "holding less is never refused");
        self.bytes = bytes;
    }

    /// The same for something that errors name so.
    pub(crate) fn named(mut self, what: &'static str) -> Self {
        self.what = what;
        self
    }

    /// Another that holds nothing, for the same.
    pub(crate) fn another(&self) -> Self {
        let mut another = self.account.hold(self.what);
        another.is_of_operator = self.is_of_operator;
        another
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.shrink(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn node(limit: usize) -> QueryMemory {
        let node = QueryMemory::default();
        node.configure(limit as u64);
        node
    }

    #[test]
    fn what_is_held_comes_back_when_it_is_dropped() {
        let node = node(8 * MIB);
        let account = Account::new(&node);
        let mut rows = account.hold("rows");
        let mut groups = account.hold("groups");
        rows.set(3 * MIB).unwrap();
        groups.add(MIB).unwrap();
        assert_eq!((account.used(), account.peak()), (4 << 20, 4 << 20));
        assert_eq!(node.used(), (4 << 20) - OWN_BYTES);
        rows.give_up(2, 3);
        assert_eq!((rows.bytes(), account.used()), (1 << 20, 2 << 20));
        drop(rows);
        drop(groups);
        assert_eq!((account.used(), account.peak(), node.used()), (0, 4 << 20, 0));
        account.begin(u64::MAX, u64::MAX);
        assert_eq!(account.peak(), 0);
        assert_eq!((node.peak(), node.refused()), ((4 << 20) - OWN_BYTES, 0));
    }

    #[test]
    fn each_limit_refuses_and_says_what_to_do() {
        let node = node(8 * MIB);
        let account = Account::new(&node);
        account.begin(6 << 20, 4 << 20);
        let mut sorted = account.hold("the rows of a sort");
        let error = sorted.set(5 * MIB).unwrap_err();
        assert_eq!(error.code(), 3170);
        let text = "Memory capacity of 4194304 bytes for 'the rows of a sort' exceeded. Have the \
                    query keep fewer rows, or raise nines_operator_memory.";
        assert_eq!(error.message(), text);
        assert_eq!((sorted.bytes(), account.used(), node.used()), (0, 0, 0));
        sorted.set(4 * MIB).unwrap();
        let mut groups = account.hold("groups");
        let error = groups.set(3 * MIB).unwrap_err();
        assert!(error.message().contains("'the connection, by groups'"), "{error:?}");
        assert!(error.message().contains("connection_memory_limit"), "{error:?}");
        let other = Account::new(&node);
        let mut rows = other.hold("rows");
        let error = rows.set(5 * MIB).unwrap_err();
        assert!(error.message().contains("8388608 bytes for 'all statements"), "{error:?}");
        assert!(error.message().contains("QueryMemory"), "{error:?}");
        assert_eq!(node.refused(), 3);
        // The first is as it was, and the second runs when there is room.
        assert_eq!((account.used(), other.used()), (4 << 20, 0));
        drop(sorted);
        rows.set(5 * MIB).unwrap();
    }

    #[test]
    fn a_small_statement_runs_when_the_budget_is_used_up() {
        let node = node(MIB);
        let large = Account::new(&node);
        let mut rows = large.hold("rows");
        rows.set(MIB + OWN_BYTES as usize).unwrap();
        assert_eq!(node.used(), node.limit());
        let small = Account::new(&node);
        let mut few = small.hold("rows");
        few.set(OWN_BYTES as usize).unwrap();
        assert!(few.add(1).is_err());
        assert_eq!((small.available(), node.used()), (0, 1 << 20));
        few.set(1).unwrap();
        assert_eq!(small.available(), OWN_BYTES - 1);
    }

    #[test]
    fn less_is_never_refused() {
        let node = node(4 * MIB);
        let account = Account::new(&node);
        let mut rows = account.hold("rows");
        rows.set(4 * MIB).unwrap();
        node.set_limit(1);
        account.begin(1, 1);
        rows.set(3 * MIB).unwrap();
        assert!(rows.add(1).is_err());
        drop(rows);
        assert_eq!((account.used(), node.used()), (0, 0));
        assert_eq!((node.limit(), node.configured()), (1, 4 << 20));
    }
}
