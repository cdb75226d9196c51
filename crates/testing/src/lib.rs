//! Fixtures of tests and benches: tables, states of a cluster, the worker of an actor.
//!
//! # Owns
//! Makers with short defaults: [`table`] for definitions of tables and for the changes of the
//! schema that make them, [`cluster`] for what a cluster agreed on, [`serving_worker`] for what an
//! actor works with. A test writes down what it is about, and nothing else.
//! # Invariants
//! A maker gives values that the catalog could have: a definition names columns that it has, a
//! state has replicas on members only. Nothing is drawn: the same calls give the same values.
//! Names that fit nothing panic, at the line of the test.
//! # Not here
//! What a single crate needs: its messages, its rows, its own worlds. Definitions of SQL: tests of
//! the SQL node let a CREATE TABLE make them.
//!
//! Only tests, `bench` and `sim` use this crate; the program does not contain it. Unit tests inside
//! `model` and `actor` cannot use it: Cargo builds these crates twice for them, once with their
//! tests and once below this crate, and a `Table` of the one is no `Table` of the other. They keep
//! fixtures of their own. For the same reason nothing above `actor` is made here: the tests of
//! `control`, `datanode` and `client` could not use what is made of their types.

mod cluster;
mod table;
mod worker;

pub use cluster::{ClusterBuilder, cluster, member, replica, slot};
pub use table::{BIGINT, INT, TableBuilder, column, nullable, table};
pub use worker::serving_worker;
