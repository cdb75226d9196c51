//! The words everything else is written in: identifiers, schema, values, rows, error codes.
//!
//! # Owns
//! Data types with their encodings and invariants.
//! # Not here
//! Behaviour over time (actors), storage (`store`), messages (`wire`).

pub mod cluster;
pub mod config;
pub mod error_code;
pub mod expression;
pub mod ids;
pub mod key;
pub mod row;
pub mod schema;
pub mod table_cache;
pub mod value;

pub use cluster::{
    ClusterState, Command, Member, MemberStatus, NodeRole, Returned, SchemaChange, Setting,
    SettingChange, Settings, StateChange,
};
pub use config::Config;
pub use error_code::{ErrorClass, ErrorCode, Refusal};
pub use expression::{Arithmetic, Comparison, EvalError, Expression};
pub use ids::*;
pub use key::{Key, KeyEncoder, ordered_word};
pub use row::{ColumnReader, Row, RowLayout, RowProjection, RowView};
pub use schema::{
    Column, ColumnType, Description, IndexState, LargeColumns, LargeForm, OrderedIndexDef, Table,
    UniqueIndexDef,
};
pub use table_cache::TableCache;
pub use value::{Value, ValueRef};
