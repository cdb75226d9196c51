//! The database as it is before the first transaction: clause 4.3.3.
//!
//! # Owns
//! `tpcc load`: the tables, and their rows, a warehouse at a time in some sessions at once.
//! # Not here
//! What values are drawn: `draws`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use crate::database::{Database, Failure};
use crate::draws::{Draws, Phase, last_name};
use crate::money;
use crate::schema::{DISTRICTS, Scale, TABLES};

/// What is to be made.
pub(crate) struct Options {
    pub(crate) socket: PathBuf,
    pub(crate) database: String,
    pub(crate) warehouses: u64,
    pub(crate) scale: Scale,
    /// Sessions that fill it at once.
    pub(crate) clients: u64,
    /// Whether the rows of a warehouse lie together.
    pub(crate) by_warehouse: bool,
    pub(crate) seed: u64,
}

/// An INSERT of many rows is sent when it is so long.
const STATEMENT_SIZE: usize = 100_000;

/// Makes the database and fills it; an older one is dropped.
pub(crate) fn load(options: &Options) -> Result<(), Failure> {
    let mut database = Database::connect(&options.socket)?;
    let name = &options.database;
    database.run(&format!("DROP DATABASE IF EXISTS {name}"))?;
    database.run(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"))?;
    database.run(&format!("USE {name}"))?;
    for table in TABLES {
        database.run(&table.definition(options.by_warehouse))?;
    }
    let draws = Draws::new(options.seed, options.scale, Phase::Load);
    items(&mut database, draws)?;
    let next = Mutex::new(1..=options.warehouses);
    let fill = || -> Result<(), Failure> {
        let mut database = Database::open(&options.socket, name)?;
        loop {
            let Some(warehouse) = next.lock().expect("no filler panics with it").next() else {
                return Ok(());
            };
            // Rows depend on the seed and the warehouse, not on who fills it.
            let draws = Draws::new(options.seed ^ warehouse << 32, options.scale, Phase::Load);
            let now = format!("'{}'", database.row("SELECT NOW()")?.text(0)?);
            Filler { database: &mut database, draws, warehouse, now }.fill()?;
        }
    };
    thread::scope(|scope| {
        let fillers: Vec<_> = (0..options.clients).map(|_| scope.spawn(fill)).collect();
        let ends =
            fillers.into_iter().map(|filler| filler.join().expect("a filler does not panic"));
        ends.collect()
    })
}

/// Rows of one table, on their way in large statements.
struct Insert {
    head: String,
    text: String,
}

impl Insert {
    fn new(table: &str) -> Self {
        Self { head: format!("INSERT INTO {table} VALUES "), text: String::new() }
    }

    /// Adds a row, values with commas between them.
    fn add(&mut self, database: &mut Database, values: &str) -> Result<(), Failure> {
        if self.text.len() > STATEMENT_SIZE {
            self.send(database)?;
        }
        self.text.push_str(if self.text.is_empty() { &self.head } else { "," });
        write!(self.text, "({values})").expect("a String takes any text");
        Ok(())
    }

    fn send(&mut self, database: &mut Database) -> Result<(), Failure> {
        if !self.text.is_empty() {
            database.run(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

fn items(database: &mut Database, mut draws: Draws) -> Result<(), Failure> {
    let mut insert = Insert::new("item");
    for item in 1..=draws.scale().items {
        let image = draws.between(1, 10_000);
        let name = draws.letters(14, 24);
        let price = money::cents(draws.between(100, 10_000) as i64);
        let data = draws.data();
        insert.add(database, &format!("{item},{image},'{name}',{price},'{data}'"))?;
    }
    insert.send(database)
}

/// Fills one warehouse.
struct Filler<'a> {
    database: &'a mut Database,
    draws: Draws,
    warehouse: u64,
    /// The moment of everything, quoted.
    now: String,
}

impl Filler<'_> {
    fn fill(&mut self) -> Result<(), Failure> {
        let (name, address) = (self.draws.letters(6, 10), self.address());
        let tax = money::rate(self.draws.between(0, 2_000));
        let ytd = money::cents(DISTRICTS as i64 * self.district_ytd());
        let values = format!("{},'{name}',{address},{tax},{ytd}", self.warehouse);
        self.database.change(&format!("INSERT INTO warehouse VALUES ({values})"))?;
        self.stock()?;
        for district in 1..=DISTRICTS {
            self.district(district)?;
            self.customers(district)?;
            self.orders(district)?;
        }
        Ok(())
    }

    /// What customers have paid: each of them 10.00, in one payment.
    fn district_ytd(&self) -> i64 {
        FIRST_PAYMENT * self.draws.scale().customers as i64
    }

    /// Two streets, city, state, zip.
    fn address(&mut self) -> String {
        let draws = &mut self.draws;
        let (one, two, city) =
            (draws.letters(10, 20), draws.letters(10, 20), draws.letters(10, 20));
        format!("'{one}','{two}','{city}','{}','{}'", draws.letters(2, 2), draws.zip())
    }

    fn stock(&mut self) -> Result<(), Failure> {
        let mut insert = Insert::new("stock");
        for item in 1..=self.draws.scale().items {
            let mut values = format!("{item},{},{}", self.warehouse, self.draws.between(10, 100));
            for _ in 0..DISTRICTS {
                write!(values, ",'{}'", self.draws.letters(24, 24))
                    .expect("a String takes any text");
            }
            write!(values, ",0,0,0,'{}'", self.draws.data()).expect("a String takes any text");
            insert.add(self.database, &values)?;
        }
        insert.send(self.database)
    }

    fn district(&mut self, district: u64) -> Result<(), Failure> {
        let (name, address) = (self.draws.letters(6, 10), self.address());
        let tax = money::rate(self.draws.between(0, 2_000));
        let ytd = money::cents(self.district_ytd());
        let next = self.draws.scale().customers + 1;
        let values = format!("{district},{},'{name}',{address},{tax},{ytd},{next}", self.warehouse);
        self.database.change(&format!("INSERT INTO district VALUES ({values})"))
    }

    fn customers(&mut self, district: u64) -> Result<(), Failure> {
        let (warehouse, now) = (self.warehouse, self.now.clone());
        let (mut customers, mut history) = (Insert::new("customer"), Insert::new("history"));
        let names = self.draws.scale().names();
        for customer in 1..=self.draws.scale().customers {
            // Every name at least once.
            let last =
                if customer <= names { last_name(customer - 1) } else { self.draws.last_name() };
            let (first, address) = (self.draws.letters(8, 16), self.address());
            let (phone, data) = (self.draws.digits(16), self.draws.letters(300, 500));
            let credit = if self.draws.percent(10) { "BC" } else { "GC" };
            let discount = money::rate(self.draws.between(0, 5_000));
            let paid = money::cents(FIRST_PAYMENT);
            let values = format!(
                "{customer},{district},{warehouse},'{first}','OE','{last}',{address},'{phone}',\
                 {now},'{credit}',50000.00,{discount},-{paid},{paid},1,0,'{data}'"
            );
            customers.add(self.database, &values)?;
            let data = self.draws.letters(12, 24);
            let values = format!(
                "{customer},{district},{warehouse},{district},{warehouse},{now},{paid},'{data}'"
            );
            history.add(self.database, &values)?;
        }
        customers.send(self.database)?;
        history.send(self.database)
    }

    fn orders(&mut self, district: u64) -> Result<(), Failure> {
        let (warehouse, scale) = (self.warehouse, self.draws.scale());
        let now = self.now.clone();
        let (mut orders, mut lines) = (Insert::new("orders"), Insert::new("order_line"));
        let mut waiting = Insert::new("new_order");
        for (customer, order) in self.draws.permutation(scale.customers).into_iter().zip(1..) {
            let delivered = order < scale.first_undelivered();
            let count = self.draws.between(5, 15);
            let carrier =
                if delivered { self.draws.between(1, 10).to_string() } else { "NULL".to_owned() };
            let values =
                format!("{order},{district},{warehouse},{customer},{now},{carrier},{count},1");
            orders.add(self.database, &values)?;
            for line in 1..=count {
                let item = self.draws.between(1, scale.items);
                // Delivered ones cost nothing: no balance knows of them.
                let (delivery, amount) = if delivered {
                    (now.as_str(), 0)
                } else {
                    ("NULL", self.draws.between(1, 999_999))
                };
                let (amount, place) = (money::cents(amount as i64), self.draws.letters(24, 24));
                let values = format!(
                    "{order},{district},{warehouse},{line},{item},{warehouse},{delivery},5,\
                     {amount},'{place}'"
                );
                lines.add(self.database, &values)?;
            }
            if !delivered {
                waiting.add(self.database, &format!("{order},{district},{warehouse}"))?;
            }
        }
        orders.send(self.database)?;
        lines.send(self.database)?;
        waiting.send(self.database)
    }
}

/// What each customer has paid before the first transaction, in cents.
const FIRST_PAYMENT: i64 = 1_000;
