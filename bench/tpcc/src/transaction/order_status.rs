//! Order-Status, clause 2.6: the last order of a customer.

use super::{Outcome, Terminal, Who};
use crate::database::{Database, Failure};
use crate::draws::Draws;
use crate::schema::DISTRICTS;

/// Whose order.
#[derive(Clone, Debug)]
pub(crate) struct OrderStatus {
    place: (u64, u64),
    who: Who,
}

impl OrderStatus {
    pub(crate) fn draw(terminal: Terminal, draws: &mut Draws) -> Self {
        Self { place: (terminal.warehouse, draws.between(1, DISTRICTS)), who: Who::draw(draws) }
    }

    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        let (warehouse, district) = self.place;
        let customer = self.who.find(database, self.place)?;
        let row = database.row(&format!(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer \
             WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
        ))?;
        row.cents(0)?;
        let row = database.row(&format!(
            "SELECT o_id, o_entry_d, o_carrier_id, o_ol_cnt FROM orders \
             WHERE o_w_id = {warehouse} AND o_d_id = {district} AND o_c_id = {customer} \
             ORDER BY o_id DESC LIMIT 1"
        ))?;
        let (order, count) = (row.number(0)?, row.number(3)?);
        let lines = database.rows(&format!(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = {warehouse} AND ol_d_id = {district} AND ol_o_id = {order}"
        ))?;
        if lines.len() as u64 != count {
            // An order is seen whole or not at all.
            let seen = lines.len();
            return Err(Failure::Data(format!(
                "{seen} of {count} lines of order {order} in {warehouse}/{district}"
            )));
        }
        Ok(Outcome::Committed)
    }
}
