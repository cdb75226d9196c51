//! What work costs, by which the planner and the executor choose.
//!
//! # Owns
//! The unit of costs, and every number of the cost model. 1 is what a data node takes to look at a
//! row: about 0.03 µs.
//! # Not here
//! How many rows there are (`selectivity`, `estimate`), and thresholds that a user may set
//! (`variables`).

/// Rows of a table that nobody has counted.
pub(crate) const ROWS_UNKNOWN: f64 = 100_000.0;

/// What a data node takes to look at a row, which is the unit of all costs.
pub(crate) const LOOK: f64 = 1.0;
/// To send a row to the SQL node and take it in there, in columns.
pub(crate) const SEND: f64 = 4.0;
/// The same of a row that does not come in columns.
pub(crate) const SEND_ROW: f64 = 40.0;
/// Rows of a table or of what it is joined to, from which on they come in columns.
pub(crate) const COLUMNS_LEAST: f64 = 1_000.0;
/// To look a row up by key, one of a batch.
pub(crate) const LOOKUP: f64 = 80.0;
/// To open a scan, or a range of an index for one row, in all partitions.
pub(crate) const RANGE: f64 = 1_000.0;
/// The same in one partition, where the distribution key is known.
pub(crate) const RANGE_OF_PARTITION: f64 = 300.0;
/// To find what a row joins with in a hash table.
pub(crate) const PROBE: f64 = 1.0;
/// To make a joined row, and to look at a pair of rows that nothing ties.
pub(crate) const JOIN: f64 = 1.0;
/// What a joined row costs the steps behind, about.
pub(crate) const LATER: f64 = 6.0;
/// To lock a row and send it.
pub(crate) const LOCKED_ROW: f64 = 40.0;

/// To find the place of a key in an index of a partition, where a data node looks up rows.
pub(crate) const SEEK: f64 = 16.0;
/// To get one row there.
pub(crate) const FETCH: f64 = 6.0;
/// To read a row on and find that its key is none of those that were told.
pub(crate) const READ_ON: f64 = 0.3;
/// How much more it takes to ask a subquery for all rows at once than to read its table.
pub(crate) const ALL_AT_ONCE: f64 = 2.0;
