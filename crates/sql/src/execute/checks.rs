//! Who checks the conditions of a scan: told, not decided (`scan`, `pushdown`).

use sql_expression::Obstacle;

use crate::execute::pushdown;
use crate::execute::run::Run;
use crate::execute::scan::{COMPARISONS_MAX, in_kernel, kernel_columns, no_program};
use crate::logical::formula::Formula;
use crate::plan::operator::{AccessPath, TableScan};

/// Who checks a condition of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckedBy {
    /// Rows for which it is not true are not in the range that is read.
    Range,
    /// The data nodes.
    DataNodes,
    /// The SQL node, and why.
    SqlNode(Obstacle),
}

/// Who checks each of the conditions of a scan. Where it depends on values whether a range says it,
/// they are taken to be such that it does.
pub(crate) fn checked_by(run: &Run<'_>, scan: &TableScan) -> Vec<CheckedBy> {
    let columns = kernel_columns(scan);
    let mut room = COMPARISONS_MAX;
    let mut is_pushed = |condition| in_kernel(run, condition, &columns, &mut room).is_some();
    let pushed: Vec<bool> = scan.conditions.iter().map(&mut is_pushed).collect();
    let all_pushed = pushed.iter().all(|pushed| *pushed);
    let by_key = matches!(scan.path, AccessPath::Primary { .. } | AccessPath::Unique { .. });
    let none = if by_key {
        Some("rows are found by key")
    } else {
        no_program(run, scan, scan.limit.is_some() && all_pushed)
    };
    let one = |(condition, pushed): (&Formula, &bool)| {
        if scan.covered {
            return CheckedBy::Range;
        }
        if !by_key && *pushed {
            return CheckedBy::DataNodes;
        }
        match none {
            Some(why) => CheckedBy::SqlNode(Obstacle::because(why)),
            None => pushdown::obstacle(&run.context, scan, condition)
                .map_or(CheckedBy::DataNodes, CheckedBy::SqlNode),
        }
    };
    scan.conditions.iter().zip(&pushed).map(one).collect()
}
