//! MySQL's data types and their values, exactly as MySQL computes with them.
//!
//! # Owns
//! [`SqlType`] (what a column or an expression is), [`Datum`] (a value), exact decimals, dates and
//! times, JSON, conversions between all of them, and the mapping onto the kernel's stored values.
//! # Guarantees
//! Pure functions: the same input gives the same output on every node. No input panics.
//! # Not here
//! Comparison of text beyond bytes (`collation`), functions and operators (`sql-expression`).

mod datum;
pub mod decimal;
pub mod format;
mod sql_type;
pub mod storage;
pub mod temporal;

pub use datum::Datum;
pub use decimal::{Decimal, DecimalOverflow};
pub use sql_type::{SqlType, TypeKind};
pub use temporal::{Date, DateTime, Time};
