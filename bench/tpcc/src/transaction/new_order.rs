//! New-Order, clause 2.4: an order of some items. One order in a hundred ends with an unknown item.

use super::{Outcome, Terminal};
use crate::database::{Database, Failure};
use crate::draws::{Draws, ORIGINAL};
use crate::money;
use crate::schema::DISTRICTS;

/// What is ordered.
#[derive(Clone, Debug)]
pub(crate) struct NewOrder {
    warehouse: u64,
    pub(crate) district: u64,
    customer: u64,
    pub(crate) lines: Vec<Line>,
}

/// So many of an item, from a warehouse.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) item: u64,
    pub(crate) supplier: u64,
    pub(crate) quantity: u64,
}

impl NewOrder {
    pub(crate) fn draw(terminal: Terminal, draws: &mut Draws) -> Self {
        let district = draws.between(1, DISTRICTS);
        let customer = draws.customer();
        let count = draws.between(5, 15);
        let rolled_back = draws.percent(1);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: draws.item(),
                supplier: if draws.percent(1) {
                    terminal.remote(draws)
                } else {
                    terminal.warehouse
                },
                quantity: draws.between(1, 10),
            })
            .collect();
        if let Some(last) = lines.last_mut().filter(|_| rolled_back) {
            last.item = draws.scale().items + 1;
        }
        Self { warehouse: terminal.warehouse, district, customer, lines }
    }

    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        let Self { warehouse, district, customer, lines } = self;
        let row = database.row(&format!(
            "SELECT c_discount, c_last, c_credit FROM customer \
             WHERE c_w_id = {warehouse} AND c_d_id = {district} AND c_id = {customer}"
        ))?;
        let discount = row.rate(0)?;
        let row = database.row(&format!("SELECT w_tax FROM warehouse WHERE w_id = {warehouse}"))?;
        let warehouse_tax = row.rate(0)?;
        let key = format!("d_w_id = {warehouse} AND d_id = {district}");
        let row = database
            .row(&format!("SELECT d_next_o_id, d_tax FROM district WHERE {key} FOR UPDATE"))?;
        let (order, district_tax) = (row.number(0)?, row.rate(1)?);
        let next = order + 1;
        database.change(&format!("UPDATE district SET d_next_o_id = {next} WHERE {key}"))?;
        let (count, local) = (lines.len(), lines.iter().all(|line| line.supplier == *warehouse));
        database.change(&format!(
            "INSERT INTO orders VALUES \
             ({order}, {district}, {warehouse}, {customer}, NOW(), NULL, {count}, {})",
            u8::from(local)
        ))?;
        database
            .change(&format!("INSERT INTO new_order VALUES ({order}, {district}, {warehouse})"))?;
        let mut sum = 0;
        for (line, number) in lines.iter().zip(1..) {
            match self.line(database, order, number, line)? {
                Some(amount) => sum += amount,
                None => return Ok(Outcome::RolledBack),
            }
        }
        // What the terminal shows at last.
        let _total = total(sum, discount, warehouse_tax + district_tax);
        Ok(Outcome::Committed)
    }

    /// Takes an item from its stock; what it costs, none if there is no such item.
    fn line(
        &self,
        database: &mut Database,
        order: u64,
        number: u64,
        line: &Line,
    ) -> Result<Option<i64>, Failure> {
        let Self { warehouse, district, .. } = self;
        let Line { item, supplier, quantity } = line;
        let query = format!("SELECT i_price, i_name, i_data FROM item WHERE i_id = {item}");
        let Some(row) = database.row_opt(&query)? else {
            return Ok(None);
        };
        let (price, item_data) = (row.cents(0)?, row.text(2)?.to_owned());
        let key = format!("s_w_id = {supplier} AND s_i_id = {item}");
        let row = database.row(&format!(
            "SELECT s_quantity, s_data, s_dist_{district:02} FROM stock WHERE {key} FOR UPDATE"
        ))?;
        let left = remaining(row.number(0)?, *quantity);
        let _brand = brand(&item_data, row.text(1)?);
        let remote = u8::from(supplier != warehouse);
        database.change(&format!(
            "UPDATE stock SET s_quantity = {left}, s_ytd = s_ytd + {quantity}, \
             s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + {remote} WHERE {key}"
        ))?;
        let amount = price * *quantity as i64;
        database.change(&format!(
            "INSERT INTO order_line VALUES ({order}, {district}, {warehouse}, {number}, {item}, \
             {supplier}, NULL, {quantity}, {}, '{}')",
            money::cents(amount),
            row.text(2)?
        ))?;
        Ok(Some(amount))
    }
}

/// A stock that would fall below ten is filled up by 91.
fn remaining(stock: u64, quantity: u64) -> u64 {
    if stock >= quantity + 10 { stock - quantity } else { stock + 91 - quantity }
}

/// "B" if both say so, else "G".
fn brand(item: &str, stock: &str) -> char {
    if item.contains(ORIGINAL) && stock.contains(ORIGINAL) { 'B' } else { 'G' }
}

/// The total in hundredths of a cent of a cent: rates are ten-thousandths.
fn total(sum: i64, discount: i64, taxes: i64) -> i128 {
    i128::from(sum) * i128::from(10_000 - discount) * i128::from(10_000 + taxes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_filled_up_before_it_falls_below_ten() {
        assert_eq!((remaining(20, 10), remaining(19, 10), remaining(10, 1)), (10, 100, 100));
        assert_eq!(remaining(11, 1), 10);
    }

    #[test]
    fn only_both_make_a_brand() {
        assert_eq!(brand("xORIGINALx", "ORIGINAL"), 'B');
        assert_eq!(brand("xORIGINALx", "x"), 'G');
        assert_eq!(brand("x", "ORIGINAL"), 'G');
    }

    #[test]
    fn the_total_is_exact() {
        // 100.00 less 10 %, plus 5 % and 5 %: 99.00.
        assert_eq!(total(10_000, 1_000, 1_000), 9_900 * 100_000_000);
    }
}
