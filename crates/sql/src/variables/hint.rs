//! SET_VAR: variables that have another value for one statement.
//!
//! # Owns
//! Which variables a hint can set; giving them their values and taking these back.
//! # Guarantees
//! After the statement each variable has the value it had before, however the statement ended.
//! Clients are told of neither change.

use std::rc::Rc;

use sql_expression::{SqlError, SqlMode};
use sql_parser::ast::HintValue;
use sqltype::Datum;

use super::registry::{self, Variable};
use super::value;
use crate::hint::StatementHints;
use crate::session::Session;

/// The variables, by name: MySQL's, and those of ours that decide how a statement is run.
const HINTABLE: &[&str] = &[
    "auto_increment_increment",
    "auto_increment_offset",
    "big_tables",
    "bulk_insert_buffer_size",
    "cte_max_recursion_depth",
    "default_table_encryption",
    "default_tmp_storage_engine",
    "div_precision_increment",
    "end_markers_in_json",
    "eq_range_index_dive_limit",
    "foreign_key_checks",
    "group_concat_max_len",
    "insert_id",
    "internal_tmp_mem_storage_engine",
    "join_buffer_size",
    "lock_wait_timeout",
    "max_error_count",
    "max_execution_time",
    "max_heap_table_size",
    "max_join_size",
    "max_length_for_sort_data",
    "max_points_in_geometry",
    "max_seeks_for_key",
    "max_sort_length",
    "nines_analytic_snapshot",
    "nines_column_rows",
    "nines_operator_memory",
    "nines_pushdown",
    "nines_pushed_join_rows",
    "nines_pushed_join_work",
    "nines_require_pushdown",
    "nines_temp_space",
    "optimizer_max_subgraph_pairs",
    "optimizer_prune_level",
    "optimizer_search_depth",
    "optimizer_switch",
    "range_alloc_block_size",
    "range_optimizer_max_mem_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "secondary_engine_cost_threshold",
    "select_into_buffer_size",
    "select_into_disk_sync",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_buffer_result",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "timestamp",
    "tmp_table_size",
    "unique_checks",
    "updatable_views_with_limit",
    "use_secondary_engine",
    "windowing_use_high_precision",
    "xa_detach_on_prepare",
];

/// Whether SET_VAR can set a variable.
pub(crate) fn is_hintable(name: &str) -> bool {
    HINTABLE.binary_search(&name).is_ok()
}

/// What there was before the hints of a statement.
#[derive(Debug)]
pub(crate) struct Before {
    hints: Option<Rc<StatementHints>>,
    values: Vec<(&'static Variable, Option<String>)>,
}

impl Session {
    /// Makes the hints of a statement count, or none.
    pub(crate) fn take_hints(&mut self, hints: Option<&Rc<StatementHints>>) -> Before {
        let mut before = Before {
            hints: std::mem::replace(&mut self.hints, hints.cloned()),
            values: Vec::new(),
        };
        self.hint_warnings.take();
        let Some(hints) = hints else { return before };
        let mut warnings = hints.warnings.clone();
        for (name, value) in &hints.variables {
            let Some(variable) = registry::find(name) else { continue };
            match self.checked(variable, value, &mut warnings) {
                Ok(text) => {
                    before.values.push((variable, self.present(variable)));
                    self.variables.assign_untold(variable.name, text);
                }
                Err(error) => warnings.push(error),
            }
        }
        self.hint_warnings.replace(warnings);
        before
    }

    /// Undoes [`Session::take_hints`]: what they had to say comes before other warnings.
    pub(crate) fn drop_hints(&mut self, before: Before) {
        self.hints = before.hints;
        for (variable, text) in before.values.into_iter().rev() {
            self.variables.assign_untold(variable.name, text);
        }
    }

    /// The text a variable is to have.
    fn checked(
        &self,
        variable: &Variable,
        value: &HintValue,
        notes: &mut Vec<SqlError>,
    ) -> Result<Option<String>, SqlError> {
        let datum = match value {
            HintValue::Number(number) => number_of(number),
            HintValue::Name(name) => Datum::text(name.as_str()),
            HintValue::Text(text) => Datum::text(text),
        };
        let strictly = self.variables.sql_mode.contains(SqlMode::STRICT_ALL_TABLES);
        value::checked(variable, &datum, strictly, notes)
    }

    /// The text that gives a variable the value it has.
    fn present(&self, variable: &Variable) -> Option<String> {
        match variable.name {
            // An INSERT may have used it up.
            "insert_id" => Some(self.variables.insert_id.unwrap_or_default().to_string()),
            _ => self.variables.text(variable).map(str::to_owned),
        }
    }
}

/// A number as a hint has it, with a letter for its size or without.
fn number_of(text: &str) -> Datum {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let whole = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match whole {
        Some(number) => Datum::UInt(number),
        None => Datum::Double(digits.parse().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_variable_of_sessions() {
        assert!(HINTABLE.is_sorted());
        for name in HINTABLE {
            let variable = registry::find(name).unwrap_or_else(|| panic!("{name}"));
            assert!(variable.is_dynamic && variable.scope != registry::Scope::Global, "{name}");
        }
    }

    #[test]
    fn numbers_have_sizes() {
        assert_eq!(number_of("16"), Datum::UInt(16));
        assert_eq!(number_of("2k"), Datum::UInt(2_048));
        assert_eq!(number_of("1G"), Datum::UInt(1 << 30));
        assert_eq!(number_of("1.5"), Datum::Double(1.5));
        assert_eq!(number_of("99999999999999999999"), Datum::Double(1e20));
    }
}
