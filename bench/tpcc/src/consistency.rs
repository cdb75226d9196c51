//! The twelve conditions of clause 3.3.2, and what breaks them.
//!
//! # Owns
//! [`Warehouse`], what the conditions speak of, and [`violations`]. They are computed here from
//! simple reads, as a server that answers wrongly must not judge itself.
//! # Not here
//! Reading it from a server: `check`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::schema::Scale;

/// A warehouse with what is in its districts. Amounts are cents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warehouse {
    pub(crate) id: u64,
    pub(crate) ytd: i64,
    pub(crate) districts: BTreeMap<u64, District>,
    /// What `history` says each district took.
    pub(crate) taken: BTreeMap<u64, i64>,
}

/// A district.
#[derive(Clone, Debug, Default)]
pub(crate) struct District {
    pub(crate) ytd: i64,
    pub(crate) next_order: u64,
    pub(crate) orders: BTreeMap<u64, Order>,
    pub(crate) waiting: BTreeSet<u64>,
    pub(crate) lines: Vec<Line>,
    pub(crate) customers: BTreeMap<u64, Customer>,
    /// What `history` says its customers have paid, wherever that was.
    pub(crate) paid: BTreeMap<u64, i64>,
}

/// An order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) customer: u64,
    pub(crate) carrier: Option<u64>,
    pub(crate) lines: u64,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) order: u64,
    pub(crate) delivered: bool,
    pub(crate) amount: i64,
}

/// A customer.
#[derive(Clone, Debug)]
pub(crate) struct Customer {
    pub(crate) balance: i64,
    pub(crate) paid: i64,
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// 1 to 12.
    pub(crate) condition: u8,
    pub(crate) text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "condition {}: {}", self.condition, self.text)
    }
}

/// Condition 11 speaks of a database without a transaction; the others always hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Just loaded.
    New,
    Used,
}

/// All that is wrong in a warehouse.
pub(crate) fn violations(warehouse: &Warehouse, age: Age) -> Vec<Violation> {
    let mut found = Findings { place: format!("warehouse {}", warehouse.id), all: Vec::new() };
    let districts: i64 = warehouse.districts.values().map(|district| district.ytd).sum();
    found.equal(1, "w_ytd", warehouse.ytd, "sum of d_ytd", districts);
    found.equal(8, "w_ytd", warehouse.ytd, "sum of h_amount", warehouse.taken.values().sum());
    let strangers = warehouse.taken.keys().filter(|id| !warehouse.districts.contains_key(id));
    for stranger in strangers {
        found.add(9, format!("history of district {stranger}, which is not there"));
    }
    for (id, district) in &warehouse.districts {
        found.place = format!("district {}/{id}", warehouse.id);
        let taken = warehouse.taken.get(id).copied().unwrap_or_default();
        found.equal(9, "d_ytd", district.ytd, "sum of h_amount", taken);
        numbers(district, age, &mut found);
        deliveries(district, &mut found);
        balances(district, &mut found);
    }
    found.all
}

/// Conditions 2, 3, 4 and 11: numbers without gaps, rows that are counted.
fn numbers(district: &District, age: Age, found: &mut Findings) {
    let last = district.next_order as i64 - 1;
    let newest = district.orders.last_key_value().map_or(0, |(id, _)| *id as i64);
    found.equal(2, "d_next_o_id - 1", last, "max(o_id)", newest);
    if let (Some(first), Some(newest)) = (district.waiting.first(), district.waiting.last()) {
        found.equal(2, "d_next_o_id - 1", last, "max(no_o_id)", *newest as i64);
        let span = (newest - first + 1) as i64;
        let count = district.waiting.len() as i64;
        found.equal(3, "max(no_o_id) - min(no_o_id) + 1", span, "rows of new_order", count);
    }
    let promised: u64 = district.orders.values().map(|order| order.lines).sum();
    let lines = district.lines.len() as i64;
    found.equal(4, "sum of o_ol_cnt", promised as i64, "rows of order_line", lines);
    if age == Age::New {
        let delivered = district.orders.len() as i64 - district.waiting.len() as i64;
        // 2,100 in a database of full size, where a district has 3,000 customers.
        let scale = Scale { items: 0, customers: district.customers.len() as u64 };
        let expected = scale.first_undelivered() as i64 - 1;
        found.equal(11, "orders less new_orders", delivered, "delivered at first", expected);
    }
}

/// Conditions 5, 6 and 7: an order, its lines and its entry in new_order agree.
fn deliveries(district: &District, found: &mut Findings) {
    let mut lines: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for line in &district.lines {
        let (count, delivered) = lines.entry(line.order).or_default();
        *count += 1;
        *delivered += u64::from(line.delivered);
    }
    for (id, order) in &district.orders {
        let waiting = district.waiting.contains(id);
        if order.carrier.is_none() != waiting {
            found.add(
                5,
                format!("order {id}: carrier {:?}, in new_order: {waiting}", order.carrier),
            );
        }
        let (count, delivered) = lines.remove(id).unwrap_or_default();
        found.equal(
            6,
            &format!("o_ol_cnt of order {id}"),
            order.lines as i64,
            "its lines",
            count as i64,
        );
        let expected = if order.carrier.is_some() { count } else { 0 };
        if delivered != expected {
            let carrier = order.carrier;
            found.add(
                7,
                format!("order {id}, carrier {carrier:?}: {delivered} of {count} lines delivered"),
            );
        }
    }
    for order in district.waiting.iter().filter(|id| !district.orders.contains_key(id)) {
        found.add(5, format!("order {order} is in new_order only"));
    }
    if let Some((order, _)) = lines.first_key_value() {
        found.add(6, format!("lines of order {order}, which is not there"));
    }
}

/// Conditions 10 and 12: what a customer owes.
fn balances(district: &District, found: &mut Findings) {
    let mut bought: BTreeMap<u64, i64> = BTreeMap::new();
    for line in district.lines.iter().filter(|line| line.delivered) {
        if let Some(order) = district.orders.get(&line.order) {
            *bought.entry(order.customer).or_default() += line.amount;
        }
    }
    for (id, customer) in &district.customers {
        let bought = bought.remove(id).unwrap_or_default();
        let paid = district.paid.get(id).copied().unwrap_or_default();
        let name = format!("c_balance of customer {id}");
        found.equal(10, &name, customer.balance, "delivered less paid", bought - paid);
        let both = customer.balance + customer.paid;
        found.equal(12, &format!("{name} + c_ytd_payment"), both, "delivered", bought);
    }
    let strangers = bought.keys().chain(district.paid.keys());
    for stranger in strangers.filter(|id| !district.customers.contains_key(id)) {
        found.add(10, format!("customer {stranger} is not there"));
    }
}

/// What is wrong, and where.
struct Findings {
    place: String,
    all: Vec<Violation>,
}

impl Findings {
    fn add(&mut self, condition: u8, text: String) {
        self.all.push(Violation { condition, text: format!("{}: {text}", self.place) });
    }

    fn equal(&mut self, condition: u8, left: &str, a: i64, right: &str, b: i64) {
        if a != b {
            self.add(condition, format!("{left} is {a}, {right} {b}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two districts; in the first a delivered order of customer 1, who paid twice, and two orders
    /// that wait.
    fn consistent() -> Warehouse {
        let order = |customer, carrier, lines| Order { customer, carrier, lines };
        let line = |order, delivered, amount| Line { order, delivered, amount };
        let district = District {
            ytd: 3_000,
            next_order: 4,
            orders: [(1, order(1, Some(7), 2)), (2, order(2, None, 1)), (3, order(1, None, 1))]
                .into(),
            waiting: [2, 3].into(),
            lines: vec![
                line(1, true, 500),
                line(1, true, 700),
                line(2, false, 900),
                line(3, false, 100),
            ],
            customers: [
                (1, Customer { balance: 1_200 - 2_000, paid: 2_000 }),
                (2, Customer { balance: -1_000, paid: 1_000 }),
            ]
            .into(),
            paid: [(1, 2_000), (2, 1_000)].into(),
        };
        let empty = District { ytd: 50, next_order: 1, ..District::default() };
        Warehouse {
            id: 1,
            ytd: 3_050,
            districts: [(1, district), (2, empty)].into(),
            taken: [(1, 3_000), (2, 50)].into(),
        }
    }

    /// The conditions that notice a change of the consistent warehouse.
    fn broken(change: impl FnOnce(&mut Warehouse, &mut District)) -> Vec<u8> {
        let mut warehouse = consistent();
        let mut district = warehouse.districts.remove(&1).unwrap();
        change(&mut warehouse, &mut district);
        warehouse.districts.insert(1, district);
        let mut conditions: Vec<u8> =
            violations(&warehouse, Age::Used).iter().map(|violation| violation.condition).collect();
        conditions.sort_unstable();
        conditions.dedup();
        conditions
    }

    #[test]
    fn a_consistent_warehouse_violates_nothing() {
        assert_eq!(violations(&consistent(), Age::Used), []);
    }

    #[test]
    fn a_lost_amount_is_noticed() {
        assert_eq!(broken(|w, _| w.ytd += 1), [1, 8]);
        assert_eq!(broken(|_, d| d.ytd += 1), [1, 9]);
        assert_eq!(broken(|w, d| (w.ytd, d.ytd) = (w.ytd + 1, d.ytd + 1)), [8, 9]);
        assert_eq!(broken(|w, _| *w.taken.get_mut(&2).unwrap() -= 1), [8, 9]);
        assert_eq!(broken(|w, _| w.taken.extend([(2, 49), (9, 1)])), [9]);
    }

    #[test]
    fn wrong_numbers_of_orders_are_noticed() {
        assert_eq!(broken(|_, d| d.next_order = 5), [2]);
        // The newest order without its entry: as if it were delivered.
        assert_eq!(broken(|_, d| assert!(d.waiting.remove(&3))), [2, 5]);
        assert_eq!(broken(|_, d| assert!(d.waiting.insert(1))), [5]);
        // A hole among those that wait.
        let hole = |d: &mut District| {
            d.orders.insert(4, Order { customer: 1, carrier: None, lines: 0 });
            d.waiting = [2, 4].into();
            d.next_order = 5;
            d.orders.get_mut(&3).unwrap().carrier = Some(1);
            d.lines
                .iter_mut()
                .filter(|line| line.order == 3)
                .for_each(|line| line.delivered = true);
            d.customers.get_mut(&1).unwrap().balance += 100;
        };
        assert_eq!(broken(|_, d| hole(d)), [3]);
    }

    #[test]
    fn lost_and_foreign_lines_are_noticed() {
        assert_eq!(broken(|_, d| d.lines.truncate(3)), [4, 6]);
        // As many lines as promised, but of the wrong orders.
        assert_eq!(broken(|_, d| d.lines[2].order = 3), [6]);
        assert_eq!(broken(|_, d| d.lines[2].order = 77), [6]);
        assert_eq!(broken(|_, d| assert!(d.orders.remove(&3).is_some())), [2, 4, 5, 6]);
    }

    #[test]
    fn half_a_delivery_is_noticed() {
        assert_eq!(broken(|_, d| d.orders.get_mut(&2).unwrap().carrier = Some(1)), [5, 7]);
        assert_eq!(broken(|_, d| d.orders.get_mut(&1).unwrap().carrier = None), [5, 7]);
        assert_eq!(broken(|_, d| d.lines[0].delivered = false), [7, 10, 12]);
        assert_eq!(broken(|_, d| d.lines[3].delivered = true), [7, 10, 12]);
    }

    #[test]
    fn wrong_balances_are_noticed() {
        assert_eq!(broken(|_, d| d.customers.get_mut(&2).unwrap().balance += 1), [10, 12]);
        assert_eq!(broken(|_, d| d.customers.get_mut(&2).unwrap().paid += 1), [12]);
        assert_eq!(broken(|_, d| *d.paid.get_mut(&2).unwrap() += 1), [10]);
        assert_eq!(broken(|_, d| assert!(d.paid.insert(9, 5).is_none())), [10]);
        assert_eq!(broken(|_, d| d.lines[0].amount += 1), [10, 12]);
    }

    #[test]
    fn a_new_database_has_delivered_seven_orders_of_ten() {
        let customer = || Customer { balance: 0, paid: 0 };
        let mut district = District { next_order: 11, ..District::default() };
        for id in 1..=10 {
            district.customers.insert(id, customer());
            let carrier = (id <= 7).then_some(1);
            district.orders.insert(id, Order { customer: id, carrier, lines: 0 });
            district.waiting.extend((id > 7).then_some(id));
        }
        let mut warehouse =
            Warehouse { id: 1, districts: [(1, district)].into(), ..Warehouse::default() };
        assert_eq!(violations(&warehouse, Age::New), []);
        let district = warehouse.districts.get_mut(&1).unwrap();
        district.orders.get_mut(&8).unwrap().carrier = Some(2);
        assert!(district.waiting.remove(&8));
        assert_eq!(violations(&warehouse, Age::Used), []);
        let found = violations(&warehouse, Age::New);
        assert_eq!(found.iter().map(|violation| violation.condition).collect::<Vec<_>>(), [11]);
    }
}
