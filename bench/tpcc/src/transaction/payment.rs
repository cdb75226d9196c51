//! Payment, clause 2.5: a customer pays, in 15 of 100 cases at another warehouse than the own.

use super::{Outcome, Terminal, Who};
use crate::database::{Database, Failure};
use crate::draws::Draws;
use crate::money;
use crate::schema::DISTRICTS;

/// Who pays how much, and where.
#[derive(Clone, Debug)]
pub(crate) struct Payment {
    /// Warehouse and district that take the money.
    place: (u64, u64),
    /// Warehouse and district of the customer.
    pub(crate) customer_place: (u64, u64),
    pub(crate) who: Who,
    /// In cents.
    pub(crate) amount: i64,
}

/// What is kept of a customer's data.
const DATA_LENGTH: usize = 500;

impl Payment {
    pub(crate) fn draw(terminal: Terminal, draws: &mut Draws) -> Self {
        let place = (terminal.warehouse, draws.between(1, DISTRICTS));
        let customer_place = if draws.percent(85) {
            place
        } else {
            (terminal.remote(draws), draws.between(1, DISTRICTS))
        };
        let who = Who::draw(draws);
        Self { place, customer_place, who, amount: draws.between(100, 500_000) as i64 }
    }

    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        let (warehouse, district) = self.place;
        let amount = money::cents(self.amount);
        let key = format!("w_id = {warehouse}");
        database.change(&format!("UPDATE warehouse SET w_ytd = w_ytd + {amount} WHERE {key}"))?;
        let row = database.row(&format!(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip \
             FROM warehouse WHERE {key}"
        ))?;
        let warehouse_name = row.text(0)?.to_owned();
        let key = format!("d_w_id = {warehouse} AND d_id = {district}");
        database.change(&format!("UPDATE district SET d_ytd = d_ytd + {amount} WHERE {key}"))?;
        let row = database.row(&format!(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip \
             FROM district WHERE {key}"
        ))?;
        let district_name = row.text(0)?.to_owned();
        let customer = self.who.find(database, self.customer_place)?;
        self.take(database, customer, &amount)?;
        let (c_warehouse, c_district) = self.customer_place;
        database.change(&format!(
            "INSERT INTO history VALUES ({customer}, {c_district}, {c_warehouse}, {district}, \
             {warehouse}, NOW(), {amount}, '{warehouse_name}    {district_name}')"
        ))?;
        Ok(Outcome::Committed)
    }

    /// Changes the customer, whose data tell of the payment when the credit is bad.
    fn take(&self, database: &mut Database, customer: u64, amount: &str) -> Result<(), Failure> {
        let ((warehouse, district), (c_warehouse, c_district)) = (self.place, self.customer_place);
        let key = format!("c_w_id = {c_warehouse} AND c_d_id = {c_district} AND c_id = {customer}");
        let row = database.row(&format!(
            "SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, \
             c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance \
             FROM customer WHERE {key} FOR UPDATE"
        ))?;
        let mut more = String::new();
        if row.text(10)? == "BC" {
            let old = database.row(&format!("SELECT c_data FROM customer WHERE {key}"))?;
            let old = old.text(0)?;
            let mut data = format!(
                "{customer} {c_district} {c_warehouse} {district} {warehouse} {amount} {old}"
            );
            data.truncate(DATA_LENGTH);
            more = format!(", c_data = '{data}'");
        }
        database.change(&format!(
            "UPDATE customer SET c_balance = c_balance - {amount}, \
             c_ytd_payment = c_ytd_payment + {amount}, c_payment_cnt = c_payment_cnt + 1{more} \
             WHERE {key}"
        ))
    }
}
