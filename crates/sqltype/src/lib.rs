//! MySQL's data types and their values, exactly as MySQL computes with them.
//!
//! # Owns
//! [`SqlType`] (what a column or an expression is), [`Datum`] (a value), exact decimals, dates and
//! times, JSON, conversions between all of them, and the mapping onto the kernel's stored values.
//! # Guarantees
//! Pure functions: the same input gives the same output on every node. No input panics.
//! # Not here
//! Comparison of text beyond bytes (`collation`), functions and operators (`sql-expression`).

mod convert;
mod datum;
pub mod decimal;
pub mod format;
pub mod json;
pub mod number;
pub mod problem;
mod sql_type;
pub mod storage;
mod store;
pub mod temporal;
pub mod zone;

pub use convert::{Converter, aligned, member_number, round_double, text};
pub use datum::Datum;
pub use decimal::{Decimal, DecimalOverflow};
pub use json::{Json, JsonPath};
pub use problem::{Problem, Problems, printable};
pub use sql_type::{SqlType, TypeKind};
pub use store::{Place, StoreMode};
pub use temporal::{Date, DateTime, Time};
pub use zone::TimeZone;
