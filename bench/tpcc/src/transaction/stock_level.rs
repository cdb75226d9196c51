//! Stock-Level, clause 2.8: how many items of the last twenty orders are nearly sold out.

use super::{Outcome, Terminal};
use crate::database::{Database, Failure};
use crate::draws::Draws;

/// What is nearly.
#[derive(Clone, Debug)]
pub(crate) struct StockLevel {
    /// Of the terminal.
    place: (u64, u64),
    pub(crate) threshold: u64,
}

impl StockLevel {
    pub(crate) fn draw(terminal: Terminal, draws: &mut Draws) -> Self {
        let place = (terminal.warehouse, terminal.district);
        Self { place, threshold: draws.between(10, 20) }
    }

    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        let ((warehouse, district), threshold) = (self.place, self.threshold);
        let row = database.row(&format!(
            "SELECT d_next_o_id FROM district WHERE d_w_id = {warehouse} AND d_id = {district}"
        ))?;
        let next = row.number(0)?;
        let first = next.saturating_sub(20);
        let row = database.row(&format!(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock \
             WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id < {next} \
             AND ol_o_id >= {first} AND s_w_id = {warehouse} AND s_i_id = ol_i_id \
             AND s_quantity < {threshold}"
        ))?;
        row.number(0)?;
        Ok(Outcome::Committed)
    }
}
