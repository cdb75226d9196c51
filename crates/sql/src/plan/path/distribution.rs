//! Which values of the distribution key the conditions of a scan allow.
//!
//! # Owns
//! [`distribution`]: partition pruning, as far as it does not depend on values.
//! # Guarantees
//! A row for which all conditions are true has one of the keys. So a partition that none of them
//! hashes to need not be asked, whatever path finds the rows in the others.
//! # Not here
//! The values of an execution and their partitions (`execute::scan::partitions`).

use sql_expression::{Expression, Node};

use super::{Fact, Target, facts_of};

/// More keys than so many for each partition leave hardly any partition out.
const KEYS_OF_PARTITION: usize = 4;

/// The keys that rows can have which meet the conditions, each in the order of the distribution
/// key; none if the conditions do not fix it, or allow too many.
pub(crate) fn distribution(
    target: &Target<'_>,
    conditions: &[Expression],
) -> Option<Vec<Vec<Expression>>> {
    let definition = target.definition;
    let table = &definition.table;
    if table.partition_count < 2 || conditions.is_empty() {
        return None;
    }
    let place = |column| definition.columns.iter().position(|of| of.column == column);
    let columns: Option<Vec<usize>> = table.distribution_key.iter().copied().map(place).collect();
    let columns = columns.filter(|columns| !columns.is_empty())?;
    let most = KEYS_OF_PARTITION * usize::from(table.partition_count);
    let facts: Vec<_> = conditions.iter().flat_map(|each| facts_of(target, each)).collect();
    keys(&columns, &facts, most).or_else(|| {
        let fixed_by = |condition: &Expression| match &condition.node {
            Node::Or(parts) => {
                let mut found = Vec::new();
                for part in parts {
                    let mut of_part = facts_of(target, part);
                    of_part.extend_from_slice(&facts);
                    found.append(&mut keys(&columns, &of_part, most)?);
                    if found.len() > most {
                        return None;
                    }
                }
                Some(found)
            }
            _ => None,
        };
        conditions.iter().find_map(fixed_by)
    })
}

/// Every combination of what facts, which all hold, say of the columns.
fn keys(columns: &[usize], facts: &[(usize, Fact)], most: usize) -> Option<Vec<Vec<Expression>>> {
    let mut keys: Vec<Vec<Expression>> = vec![Vec::new()];
    for column in columns {
        let of_column = facts.iter().filter(|(of, _)| of == column);
        let values = of_column.filter_map(|(_, fact)| values(fact)).min_by_key(Vec::len)?;
        if keys.len() * values.len() > most {
            return None;
        }
        let with_each = keys.iter().flat_map(|key| {
            values.iter().map(move |value| key.iter().chain([*value]).cloned().collect())
        });
        keys = with_each.collect();
    }
    Some(keys)
}

/// The values that a column may have, if a fact names them. A distribution key has no NULLs.
fn values(fact: &Fact) -> Option<Vec<&Expression>> {
    match fact {
        Fact::Equal(value) | Fact::NullSafe(value) => Some(vec![value]),
        Fact::OneOf(values) => Some(values.iter().collect()),
        Fact::Between(ranges) => {
            let one = |range: &super::IndexRange| range.equal.len() == 1 && range.is_fixed();
            ranges
                .iter()
                .all(one)
                .then(|| ranges.iter().map(|range| &range.equal[0].value).collect())
        }
        Fact::Low(..) | Fact::High(..) | Fact::Like(_) => None,
    }
}
