//! Delivery, clause 2.7: the oldest order of each district that waits for it.
//!
//! The specification lets a queue hold deliveries for later; here they are made at once, all ten
//! districts in one transaction, and what they take is measured.

use super::{Outcome, Terminal};
use crate::database::{Database, Failure};
use crate::draws::Draws;
use crate::money;
use crate::schema::DISTRICTS;

/// Who delivers.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    warehouse: u64,
    carrier: u64,
}

impl Delivery {
    pub(crate) fn draw(terminal: Terminal, draws: &mut Draws) -> Self {
        Self { warehouse: terminal.warehouse, carrier: draws.between(1, 10) }
    }

    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        let mut skipped = 0;
        for district in 1..=DISTRICTS {
            skipped += u64::from(!self.district(database, district)?);
        }
        Ok(if skipped == 0 { Outcome::Committed } else { Outcome::Skipped(skipped) })
    }

    /// Delivers the oldest order; false if there is none.
    fn district(&self, database: &mut Database, district: u64) -> Result<bool, Failure> {
        let Self { warehouse, carrier } = self;
        let waiting = database.row_opt(&format!(
            "SELECT no_o_id FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district} \
             ORDER BY no_o_id LIMIT 1 FOR UPDATE"
        ))?;
        let Some(waiting) = waiting else {
            return Ok(false);
        };
        let order = waiting.number(0)?;
        database.change(&format!(
            "DELETE FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {district} \
             AND no_o_id = {order}"
        ))?;
        let key = format!("o_w_id = {warehouse} AND o_d_id = {district} AND o_id = {order}");
        let row = database.row(&format!("SELECT o_c_id FROM orders WHERE {key}"))?;
        let customer = row.number(0)?;
        database.change(&format!("UPDATE orders SET o_carrier_id = {carrier} WHERE {key}"))?;
        let key = format!("ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = {order}");
        database.run(&format!("UPDATE order_line SET ol_delivery_d = NOW() WHERE {key}"))?;
        let row = database.row(&format!("SELECT SUM(ol_amount) FROM order_line WHERE {key}"))?;
        let amount = money::cents(row.cents(0)?);
        database.change(&format!(
            "UPDATE customer SET c_balance = c_balance + {amount}, \
             c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
        ))?;
        Ok(true)
    }
}
