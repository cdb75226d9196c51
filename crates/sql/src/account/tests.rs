//! Accounts by statements, on the control log's own state machine.

mod matrix;
mod statements;
