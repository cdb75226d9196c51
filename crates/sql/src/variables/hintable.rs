//! Which variables a hint can set for one statement.

/// Whether SET_VAR can set a variable.
pub(crate) fn is_hintable(name: &str) -> bool {
    HINTABLE.binary_search(&name).is_ok()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::registry;

    #[test]
    fn each_is_a_variable_of_sessions() {
        assert!(HINTABLE.is_sorted());
        for name in HINTABLE {
            let variable = registry::find(name).unwrap_or_else(|| panic!("{name}"));
            assert!(variable.is_dynamic && variable.scope != registry::Scope::Global, "{name}");
        }
    }
}
