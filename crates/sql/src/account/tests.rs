//! Accounts by statements, on the control log's own state machine.

mod first;
mod matrix;
mod statements;
