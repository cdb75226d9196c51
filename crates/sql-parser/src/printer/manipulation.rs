//! Statements that change rows.

use super::Printer;
use crate::ast::{
    Assignment, Call, Delete, DeleteTarget, Insert, InsertPriority, InsertSource, LoadColumn,
    LoadData, LoadDuplicates, LoadPriority, Update,
};

impl Printer<'_> {
    pub(super) fn insert(&mut self, insert: &Insert) {
        self.put(if insert.replace { "replace" } else { "insert" });
        self.hints(insert.hints.as_deref());
        self.put(match insert.priority {
            None => "",
            Some(InsertPriority::Low) => " low_priority",
            Some(InsertPriority::High) => " high_priority",
            Some(InsertPriority::Delayed) => " delayed",
        });
        self.put_if(insert.ignore, " ignore");
        self.put(" into ");
        self.object_name(&insert.table);
        self.optional_ident_list(" partition ", &insert.partitions);
        if let Some(columns) = &insert.columns {
            self.put(" (");
            self.list(columns, ",", Self::column_ref);
            self.put(")");
        }
        match &insert.source {
            InsertSource::Values(rows) => {
                self.put(" values ");
                self.list(rows, ",", |printer, row| {
                    printer.put("(");
                    printer.exprs(row);
                    printer.put(")");
                });
            }
            InsertSource::Literals(_) => self.put(" values (...)"),
            InsertSource::Query(query) => {
                self.put(" ");
                self.query(query);
            }
        }
        if let Some(alias) = &insert.alias {
            self.put(" as ");
            self.ident(&alias.table);
            self.optional_ident_list(" ", &alias.columns);
        }
        if !insert.on_duplicate.is_empty() {
            self.put(" on duplicate key update ");
            self.assignments(&insert.on_duplicate);
        }
    }

    fn assignments(&mut self, assignments: &[Assignment]) {
        self.list(assignments, ",", |printer, assignment| {
            printer.column_ref(&assignment.column);
            printer.put(" = ");
            printer.expr(&assignment.value);
        });
    }

    pub(super) fn update(&mut self, update: &Update) {
        if let Some(with) = &update.with {
            self.with(with);
            self.put(" ");
        }
        self.put("update");
        self.hints(update.hints.as_deref());
        self.put_if(update.low_priority, " low_priority");
        self.put_if(update.ignore, " ignore");
        self.put(" ");
        self.list(&update.tables, ",", Self::table_reference);
        self.put(" set ");
        self.assignments(&update.assignments);
        self.clause(" where ", update.filter.as_ref());
        self.order_by(&update.order_by);
        self.limit(update.limit.as_ref());
    }

    pub(super) fn delete(&mut self, delete: &Delete) {
        if let Some(with) = &delete.with {
            self.with(with);
            self.put(" ");
        }
        self.put("delete");
        self.hints(delete.hints.as_deref());
        self.put_if(delete.low_priority, " low_priority");
        self.put_if(delete.quick, " quick");
        self.put_if(delete.ignore, " ignore");
        match &delete.target {
            DeleteTarget::Single { table, alias, partitions } => {
                self.put(" from ");
                self.object_name(table);
                if let Some(alias) = alias {
                    self.put(" ");
                    self.ident(alias);
                }
                self.optional_ident_list(" partition ", partitions);
            }
            DeleteTarget::Multi { tables, from } => {
                self.put(" ");
                self.object_names(tables);
                self.put(" from ");
                self.list(from, ",", Self::table_reference);
            }
        }
        self.clause(" where ", delete.filter.as_ref());
        self.order_by(&delete.order_by);
        self.limit(delete.limit.as_ref());
    }

    pub(super) fn load_data(&mut self, load: &LoadData) {
        self.put(if load.xml { "load xml" } else { "load data" });
        self.put(match load.priority {
            None => "",
            Some(LoadPriority::Low) => " low_priority",
            Some(LoadPriority::Concurrent) => " concurrent",
        });
        self.put_if(load.local, " local");
        self.put(" infile ");
        self.text(&load.path);
        self.put(duplicates_text(load.duplicates));
        self.put(" into table ");
        self.object_name(&load.table);
        self.optional_ident_list(" partition ", &load.partitions);
        if let Some(charset) = &load.charset {
            self.put(" character set ");
            self.charset(charset);
        }
        if let Some(tag) = &load.rows_identified {
            self.put(" rows identified by ");
            self.bytes(tag);
        }
        self.file_format(&load.format);
        if load.ignore_lines > 0 {
            self.put(&format!(" ignore {} lines", load.ignore_lines));
        }
        if !load.columns.is_empty() {
            self.put(" (");
            self.list(&load.columns, ",", |printer, column| match column {
                LoadColumn::Column(column) => printer.column_ref(column),
                LoadColumn::Variable(name) => printer.user_variable(name),
            });
            self.put(")");
        }
        if !load.assignments.is_empty() {
            self.put(" set ");
            self.assignments(&load.assignments);
        }
    }

    pub(super) fn call(&mut self, call: &Call) {
        self.put("call ");
        self.object_name(&call.name);
        self.put("(");
        self.exprs(&call.arguments);
        self.put(")");
    }
}

pub(super) fn duplicates_text(duplicates: Option<LoadDuplicates>) -> &'static str {
    match duplicates {
        None => "",
        Some(LoadDuplicates::Replace) => " replace",
        Some(LoadDuplicates::Ignore) => " ignore",
    }
}
