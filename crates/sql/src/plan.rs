//! From the bound tree to operators.
//!
//! # Owns
//! How [`planner::Planner`] gets from a bound query to its plan: joins ordered, access paths
//! chosen, subqueries planned for single rows, for all rows at once and for single values.
//! # Guarantees
//! A plan depends on the definitions it was made from, on the statement's text and on the kinds of
//! its parameters, not on their values: those may differ from one execution to the next.
//! # Not here
//! What names mean, and rewriting (`logical`). Running a plan (`execute`).

mod assemble;
pub(crate) mod cost;
mod distinct;
mod edge;
mod equivalence;
pub(crate) mod estimate;
pub(crate) mod join;
pub(crate) mod keyed;
mod limit;
mod member;
pub(crate) mod operator;
pub(crate) mod operator_id;
mod order;
pub(crate) mod outer;
pub(crate) mod path;
mod physical;
pub(crate) mod planner;
pub(crate) mod selectivity;
mod set_operation;
mod window;

#[cfg(test)]
mod tests;
