//! The nine tables of clause 1.3, and how large they are (clauses 1.2 and 4.3.3).
//!
//! # Owns
//! Definitions in words that Nines and MariaDB both know; the sizes that all else draws from.

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u64 = 10;

/// Three orders in ten are not delivered when a database is new.
const UNDELIVERED_PERCENT: u64 = 30;

/// How many rows belong to the database, and to each district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) items: u64,
    /// Of a district; as many orders are there at first.
    pub(crate) customers: u64,
}

impl Scale {
    /// The sizes of the specification, divided: all but 1 is for tests.
    pub(crate) fn divided(divisor: u64) -> Self {
        // Below this, transactions have nothing to choose from.
        Self { items: (100_000 / divisor).max(100), customers: (3_000 / divisor).max(30) }
    }

    /// Different last names among the customers of a district.
    pub(crate) fn names(self) -> u64 {
        self.customers.min(1_000)
    }

    /// The first order of a district that is not delivered at the beginning.
    pub(crate) fn first_undelivered(self) -> u64 {
        self.customers - self.customers * UNDELIVERED_PERCENT / 100 + 1
    }
}

/// A table, the column that names its warehouse, and its definition.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    warehouse: Option<&'static str>,
    columns: &'static str,
}

impl Table {
    /// The statement that makes it; with `by_warehouse`, rows of a warehouse lie together.
    pub(crate) fn definition(&self, by_warehouse: bool) -> String {
        let placement = match self.warehouse {
            Some(column) if by_warehouse => format!(" PARTITION BY KEY ({column})"),
            _ => String::new(),
        };
        format!("CREATE TABLE {} ({}){placement}", self.name, self.columns)
    }
}

/// All tables. `history` has no key: the specification gives it none.
pub(crate) const TABLES: [Table; 9] = [
    Table {
        name: "warehouse",
        warehouse: Some("w_id"),
        columns: "w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, \
                  w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, \
                  w_state CHAR(2) NOT NULL, w_zip CHAR(9) NOT NULL, w_tax DECIMAL(4,4) NOT NULL, \
                  w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id)",
    },
    Table {
        name: "district",
        warehouse: Some("d_w_id"),
        columns: "d_id INT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, \
                  d_street_1 VARCHAR(20) NOT NULL, d_street_2 VARCHAR(20) NOT NULL, \
                  d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL, \
                  d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, \
                  d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id)",
    },
    Table {
        name: "customer",
        warehouse: Some("c_w_id"),
        columns: "c_id INT NOT NULL, c_d_id INT NOT NULL, c_w_id INT NOT NULL, \
                  c_first VARCHAR(16) NOT NULL, c_middle CHAR(2) NOT NULL, \
                  c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL, \
                  c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, \
                  c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL, c_phone CHAR(16) NOT NULL, \
                  c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL, \
                  c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, \
                  c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL, \
                  c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, \
                  c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id), \
                  KEY c_name (c_w_id, c_d_id, c_last, c_first)",
    },
    Table {
        name: "history",
        warehouse: None,
        columns: "h_c_id INT NOT NULL, h_c_d_id INT NOT NULL, h_c_w_id INT NOT NULL, \
                  h_d_id INT NOT NULL, h_w_id INT NOT NULL, h_date DATETIME NOT NULL, \
                  h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL",
    },
    Table {
        name: "new_order",
        warehouse: Some("no_w_id"),
        columns: "no_o_id INT NOT NULL, no_d_id INT NOT NULL, no_w_id INT NOT NULL, \
                  PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
    },
    Table {
        name: "orders",
        warehouse: Some("o_w_id"),
        columns: "o_id INT NOT NULL, o_d_id INT NOT NULL, o_w_id INT NOT NULL, \
                  o_c_id INT NOT NULL, o_entry_d DATETIME NOT NULL, o_carrier_id INT, \
                  o_ol_cnt INT NOT NULL, o_all_local INT NOT NULL, \
                  PRIMARY KEY (o_w_id, o_d_id, o_id), \
                  KEY o_customer (o_w_id, o_d_id, o_c_id, o_id)",
    },
    Table {
        name: "order_line",
        warehouse: Some("ol_w_id"),
        columns: "ol_o_id INT NOT NULL, ol_d_id INT NOT NULL, ol_w_id INT NOT NULL, \
                  ol_number INT NOT NULL, ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, \
                  ol_delivery_d DATETIME, ol_quantity INT NOT NULL, \
                  ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL, \
                  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
    },
    Table {
        name: "item",
        warehouse: None,
        columns: "i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, \
                  i_price DECIMAL(5,2) NOT NULL, i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)",
    },
    Table {
        name: "stock",
        warehouse: Some("s_w_id"),
        columns: "s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity INT NOT NULL, \
                  s_dist_01 CHAR(24) NOT NULL, s_dist_02 CHAR(24) NOT NULL, \
                  s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL, \
                  s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL, \
                  s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, \
                  s_dist_09 CHAR(24) NOT NULL, s_dist_10 CHAR(24) NOT NULL, \
                  s_ytd INT NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, \
                  s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id)",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specification() {
        let scale = Scale::divided(1);
        assert_eq!(scale, Scale { items: 100_000, customers: 3_000 });
        assert_eq!((scale.names(), scale.first_undelivered()), (1_000, 2_101));
        let small = Scale::divided(50);
        assert_eq!((small.customers, small.names(), small.first_undelivered()), (60, 60, 43));
    }

    #[test]
    fn rows_lie_by_warehouse_only_when_asked() {
        let stock = TABLES.iter().find(|table| table.name == "stock").unwrap();
        assert!(stock.definition(true).ends_with(" PARTITION BY KEY (s_w_id)"));
        assert!(!stock.definition(false).contains("PARTITION"));
    }
}
