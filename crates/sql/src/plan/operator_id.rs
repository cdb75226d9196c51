//! Which operator of a plan is which.
//!
//! # Owns
//! [`OperatorId`], the identity of an operator in the plans of one statement; [`IdSlot`], where an
//! operator keeps its id; [`OperatorIds`], the ids that a statement has handed out;
//! [`PerOperator`], a table with one entry for each operator.
//! # Guarantees
//! Within one statement no two operators have the same id. Ids are dense: a table of them has no
//! holes to speak of. An id never changes, so all executions of a kept plan see the same ids.
//! # Not here
//! The walk that hands them out (`operator`), and when that happens (`planner`).

use std::cell::OnceCell;

/// The identity of an operator, or of a scan inside one, in the plans of one statement: 0, 1, 2 in
/// the order in which EXPLAIN prints them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperatorId(u32);

impl OperatorId {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The place of an operator's id: empty while the statement is planned, filled once when its plan
/// is finished. Plans of subqueries are shared by then, so the slot is filled through a reference.
#[derive(Debug, Default)]
pub(crate) struct IdSlot(OnceCell<OperatorId>);

impl IdSlot {
    /// The id, if the plan is finished.
    pub(crate) fn get(&self) -> Option<OperatorId> {
        self.0.get().copied()
    }

    /// The id of an operator of a finished plan.
    pub(crate) fn id(&self) -> OperatorId {
        self.get().expect("an operator is run only when its plan is finished")
    }
}

/// Is called with the slot of each operator in a walk; says whether the walk goes on below it.
pub(crate) type SeeSlot<'s> = dyn FnMut(&IdSlot) -> bool + 's;

/// The ids that the planner of a statement has handed out.
#[derive(Debug, Default)]
pub(crate) struct OperatorIds {
    next: u32,
}

impl OperatorIds {
    /// Gives an operator the next id; false if the operator has one, because its plan is used in
    /// two places and was met before.
    pub(crate) fn give(&mut self, slot: &IdSlot) -> bool {
        let is_new = slot.0.set(OperatorId(self.next)).is_ok();
        self.next += u32::from(is_new);
        is_new
    }

    /// Checks operators that have been given ids; `for_each` walks over them.
    ///
    /// # Panics
    /// Two operators have the same id, or one has none: a part of the plan was made for another
    /// statement.
    pub(crate) fn check(&self, for_each: &dyn Fn(&mut SeeSlot<'_>)) {
        let mut owners: Vec<Option<*const IdSlot>> = vec![None; self.next as usize];
        for_each(&mut |slot| {
            let owner = owners.get_mut(slot.id().index());
            let owner = owner.expect("an operator has an id of its own statement");
            match owner.replace(slot) {
                Some(other) => {
                    assert!(std::ptr::eq(other, slot), "two operators have {:?}", slot.id());
                    false
                }
                None => true,
            }
        });
    }
}

/// A table with an entry for each operator that has one.
#[derive(Debug)]
pub(crate) struct PerOperator<T> {
    entries: Vec<Option<T>>,
}

impl<T> Default for PerOperator<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T> PerOperator<T> {
    pub(crate) fn get(&self, id: OperatorId) -> Option<&T> {
        self.entries.get(id.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: OperatorId) -> Option<&mut T> {
        self.entries.get_mut(id.index())?.as_mut()
    }

    /// Whether the operator has an entry.
    pub(crate) fn has(&self, id: OperatorId) -> bool {
        self.get(id).is_some()
    }

    /// Makes this the entry of an operator, instead of the one there was.
    pub(crate) fn insert(&mut self, id: OperatorId, entry: T) {
        *self.place(id) = Some(entry);
    }

    /// Takes the entry of an operator out of the table.
    pub(crate) fn take(&mut self, id: OperatorId) -> Option<T> {
        self.entries.get_mut(id.index())?.take()
    }

    /// The entry of an operator, which begins as the default.
    pub(crate) fn or_default(&mut self, id: OperatorId) -> &mut T
    where
        T: Default,
    {
        self.place(id).get_or_insert_default()
    }

    fn place(&mut self, id: OperatorId) -> &mut Option<T> {
        let index = id.index();
        if index >= self.entries.len() {
            self.entries.resize_with(index + 1, || None);
        }
        &mut self.entries[index]
    }
}

impl<T> Extend<(OperatorId, T)> for PerOperator<T> {
    fn extend<I: IntoIterator<Item = (OperatorId, T)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(id, entry)| self.insert(id, entry));
    }
}

impl<T> FromIterator<(OperatorId, T)> for PerOperator<T> {
    fn from_iter<I: IntoIterator<Item = (OperatorId, T)>>(entries: I) -> Self {
        let mut table = Self::default();
        table.extend(entries);
        table
    }
}

#[cfg(test)]
mod tests;
