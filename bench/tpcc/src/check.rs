//! Reads a database and says which conditions do not hold.
//!
//! # Owns
//! `tpcc check`: one simple read of a table and a district at a time. No transactions may run
//! beside it: the reads are not of one moment.

use std::path::Path;

use crate::consistency::{Age, Customer, District, Line, Order, Violation, Warehouse, violations};
use crate::database::{Database, Failure};

/// Checks all warehouses; how many there are, and what is wrong.
pub(crate) fn check(
    socket: &Path,
    name: &str,
    age: Age,
) -> Result<(usize, Vec<Violation>), Failure> {
    let mut database = Database::open(socket, name)?;
    let rows = database.rows("SELECT w_id, w_ytd FROM warehouse ORDER BY w_id")?;
    let mut found = Vec::new();
    for row in &rows {
        let mut warehouse =
            Warehouse { id: row.number(0)?, ytd: row.cents(1)?, ..Warehouse::default() };
        read(&mut database, &mut warehouse)?;
        found.extend(violations(&warehouse, age));
    }
    if rows.is_empty() {
        return Err(Failure::Data("there is no warehouse".to_owned()));
    }
    Ok((rows.len(), found))
}

fn read(database: &mut Database, warehouse: &mut Warehouse) -> Result<(), Failure> {
    let id = warehouse.id;
    let query = format!("SELECT d_id, d_ytd, d_next_o_id FROM district WHERE d_w_id = {id}");
    for row in database.rows(&query)? {
        let (ytd, next_order) = (row.cents(1)?, row.number(2)?);
        let mut district = District { ytd, next_order, ..District::default() };
        fill(database, id, row.number(0)?, &mut district)?;
        warehouse.districts.insert(row.number(0)?, district);
    }
    for row in
        database.rows(&format!("SELECT h_d_id, h_amount FROM history WHERE h_w_id = {id}"))?
    {
        *warehouse.taken.entry(row.number(0)?).or_default() += row.cents(1)?;
    }
    let query = format!("SELECT h_c_d_id, h_c_id, h_amount FROM history WHERE h_c_w_id = {id}");
    for row in database.rows(&query)? {
        let district = warehouse.districts.entry(row.number(0)?).or_default();
        *district.paid.entry(row.number(1)?).or_default() += row.cents(2)?;
    }
    Ok(())
}

fn fill(
    database: &mut Database,
    warehouse: u64,
    id: u64,
    district: &mut District,
) -> Result<(), Failure> {
    for row in database.rows(&format!(
        "SELECT o_id, o_c_id, o_carrier_id, o_ol_cnt FROM orders \
         WHERE o_w_id = {warehouse} AND o_d_id = {id}"
    ))? {
        let carrier = row.opt(2).map(|_| row.number(2)).transpose()?;
        let order = Order { customer: row.number(1)?, carrier, lines: row.number(3)? };
        district.orders.insert(row.number(0)?, order);
    }
    for row in database.rows(&format!(
        "SELECT no_o_id FROM new_order WHERE no_w_id = {warehouse} AND no_d_id = {id}"
    ))? {
        district.waiting.insert(row.number(0)?);
    }
    for row in database.rows(&format!(
        "SELECT ol_o_id, ol_delivery_d, ol_amount FROM order_line \
         WHERE ol_w_id = {warehouse} AND ol_d_id = {id}"
    ))? {
        let delivered = row.opt(1).is_some();
        district.lines.push(Line { order: row.number(0)?, delivered, amount: row.cents(2)? });
    }
    for row in database.rows(&format!(
        "SELECT c_id, c_balance, c_ytd_payment FROM customer \
         WHERE c_w_id = {warehouse} AND c_d_id = {id}"
    ))? {
        let customer = Customer { balance: row.cents(1)?, paid: row.cents(2)? };
        district.customers.insert(row.number(0)?, customer);
    }
    Ok(())
}
