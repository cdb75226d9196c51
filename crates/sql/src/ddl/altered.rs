//! What an ALTER TABLE makes of a table, after all checks and before anything is done.

use std::rc::Rc;

use super::foreign_key::Planned;
use crate::catalog::Complete;
use crate::catalog::TableDefinition;
use crate::catalog::names::TableName;

/// An alteration that has been checked.
pub(super) struct Altered {
    pub(super) old: Rc<TableDefinition>,
    pub(super) new: Complete,
    pub(super) origins: Vec<Option<usize>>,
    pub(super) must_rebuild: bool,
    pub(super) auto_increment: Option<u64>,
    /// Of a temporary table: the name that the kernel knows it by.
    pub(super) kernel_name: Option<TableName>,
}

impl Altered {
    /// The table as foreign keys see it.
    pub(super) fn planned<'a>(&'a self, name: &'a TableName, is_replaced: bool) -> Planned<'a> {
        let renamed = self.new.columns.iter().zip(&self.origins).filter_map(|(column, origin)| {
            let before = &self.old.columns[(*origin)?].name;
            (before != &column.name).then(|| (before.clone(), column.name.clone()))
        });
        Planned {
            name: self.kernel_name.as_ref().unwrap_or(name),
            id: Some(self.old.table.id),
            parts: self.new.parts(),
            renamed: renamed.collect(),
            is_replaced,
        }
    }
}
