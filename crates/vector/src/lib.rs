//! Columns of values, and programs that compute with them many rows at a time.
//!
//! # Owns
//! [`Vector`], the values of a column; [`Program`], what data nodes are asked to make of the rows
//! of a scan: which rows pass, what is computed of them, how they are grouped; [`Machine`], which
//! runs it; [`Block`], what comes of it. [`Computer`], which runs a program over columns;
//! [`JoinTable`], rows by key; [`KeySet`], what one side of a join tells the other; [`JoinPlan`],
//! what is looked up for the rows of a scan, and [`LookupJoin`], which puts it beside them.
//! # Guarantees
//! 1. A program that [`Program::check`] lets through runs on any rows of its table to the end,
//!    whatever the values. Rows of which something cannot be computed exactly (a number out of
//!    range) come out as they are, for whoever wrote the program to decide.
//! 2. A machine's memory is bounded: groups that take too much are given out, and begun anew.
//! # Not here
//! What expressions mean in SQL, and which of them a program can say (`sql-expression`).

pub mod block;
mod computer;
mod evaluate;
mod group;
mod join;
mod key_set;
mod lookup;
pub mod machine;
pub mod program;
mod top;
mod vector;

pub use block::Block;
pub use computer::{Computer, FirstRows, GroupTable};
pub use evaluate::Inexact;
pub use join::{JoinTable, JoinTableMaker, KeyColumn, ProbePlace};
pub use key_set::{KeySet, KeySetMaker};
pub use lookup::{
    GIVEN_BYTES_MAX, GIVEN_ROWS_MAX, Given, GivenKey, JoinPlan, JoinedRows, KeyPart, LOOKUPS_MAX,
    Lookup, LookupJoin, LookupKeys, Matching, NO_TABLE, Range, RangeJoin,
};
pub use machine::{GROUPS_BYTES_MAX, Machine, Output};
pub use program::{
    Aggregate, AggregateFunction, Bad, DatePart, GroupKey, Input, NODES_MAX, Node, NodeNumber,
    PARTS_MAX, Program, Yield,
};
pub use top::{TOP_ROWS_MAX, Top, TopKey};
pub use vector::{Decimals, Kind, Scalar, ScalarRef, Texts, Values, Vector, Whole};

/// Rows that are computed with at a time.
pub const BATCH_ROWS: usize = 1_024;

#[cfg(test)]
mod tests;
