//! The five transactions of clause 2: what a terminal enters, and the statements of each.
//!
//! # Owns
//! The kinds and their mix; [`Input`], drawn once and good for every retry.
//! # Invariants
//! What is read in order to be written is read FOR UPDATE, so READ COMMITTED is enough for the
//! isolation that clause 3.4.2 asks for.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

pub(crate) use delivery::Delivery;
pub(crate) use new_order::NewOrder;
pub(crate) use order_status::OrderStatus;
pub(crate) use payment::Payment;
pub(crate) use stock_level::StockLevel;

use crate::database::{Database, Failure, Row};
use crate::draws::Draws;
use crate::schema::DISTRICTS;

/// The kinds of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    /// All of them, with how many of a hundred transactions they are.
    pub(crate) const MIX: [(Kind, usize); 5] = [
        (Kind::NewOrder, 45),
        (Kind::Payment, 43),
        (Kind::OrderStatus, 4),
        (Kind::Delivery, 4),
        (Kind::StockLevel, 4),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "New-Order",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "Order-Status",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "Stock-Level",
        }
    }
}

/// A hundred transactions in random order, and then the next hundred: the mix is exact.
#[derive(Debug, Default)]
pub(crate) struct Deck(Vec<Kind>);

impl Deck {
    pub(crate) fn next(&mut self, draws: &mut Draws) -> Kind {
        loop {
            if let Some(kind) = self.0.pop() {
                return kind;
            }
            self.0 = Kind::MIX.iter().flat_map(|(kind, count)| vec![*kind; *count]).collect();
            draws.shuffle(&mut self.0);
        }
    }
}

/// Where a terminal stands: clause 2.2 gives it a warehouse and a district of it for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    pub(crate) warehouse: u64,
    pub(crate) district: u64,
    /// How many warehouses there are.
    pub(crate) warehouses: u64,
}

impl Terminal {
    /// The terminals are spread over warehouses first, then over their districts.
    pub(crate) fn new(number: u64, warehouses: u64) -> Self {
        let (warehouse, district) = (number % warehouses + 1, number / warehouses % DISTRICTS + 1);
        Self { warehouse, district, warehouses }
    }

    /// Another warehouse than its own; its own if there is no other.
    fn remote(&self, draws: &mut Draws) -> u64 {
        if self.warehouses == 1 {
            return self.warehouse;
        }
        let other = draws.between(1, self.warehouses - 1);
        if other >= self.warehouse { other + 1 } else { other }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// As the specification wants it of one New-Order in a hundred.
    RolledBack,
    /// Committed, but in so many districts there was nothing to deliver.
    Skipped(u64),
}

/// A transaction with all that is entered.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    pub(crate) fn draw(kind: Kind, terminal: Terminal, draws: &mut Draws) -> Self {
        match kind {
            Kind::NewOrder => Input::NewOrder(NewOrder::draw(terminal, draws)),
            Kind::Payment => Input::Payment(Payment::draw(terminal, draws)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::draw(terminal, draws)),
            Kind::Delivery => Input::Delivery(Delivery::draw(terminal, draws)),
            Kind::StockLevel => Input::StockLevel(StockLevel::draw(terminal, draws)),
        }
    }

    /// Runs it from its beginning to its end. After a failure the transaction is still open.
    pub(crate) fn run(&self, database: &mut Database) -> Result<Outcome, Failure> {
        database.run("START TRANSACTION")?;
        let outcome = match self {
            Input::NewOrder(input) => input.run(database)?,
            Input::Payment(input) => input.run(database)?,
            Input::OrderStatus(input) => input.run(database)?,
            Input::Delivery(input) => input.run(database)?,
            Input::StockLevel(input) => input.run(database)?,
        };
        let end = if outcome == Outcome::RolledBack { "ROLLBACK" } else { "COMMIT" };
        database.run(end)?;
        Ok(outcome)
    }
}

/// How a customer is named: by number, or in 60 of 100 cases by last name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Number(u64),
    Name(String),
}

impl Who {
    fn draw(draws: &mut Draws) -> Self {
        if draws.percent(60) { Who::Name(draws.last_name()) } else { Who::Number(draws.customer()) }
    }

    /// The customer's number: of those with the name, ordered by first name, the one in the middle,
    /// rounded up (clause 2.5.2.2).
    fn find(&self, database: &mut Database, place: (u64, u64)) -> Result<u64, Failure> {
        let (warehouse, district) = place;
        match self {
            Who::Number(number) => Ok(*number),
            Who::Name(name) => {
                let rows = database.rows(&format!(
                    "SELECT c_id FROM customer WHERE c_w_id = {warehouse} AND c_d_id = {district} \
                     AND c_last = '{name}' ORDER BY c_first"
                ))?;
                let none =
                    || Failure::Data(format!("no customer {name} in {warehouse}/{district}"));
                middle(&rows).ok_or_else(none)?.number(0)
            }
        }
    }
}

/// The element at position n/2 rounded up, counted from 1.
fn middle(rows: &[Row]) -> Option<&Row> {
    rows.get(rows.len().div_ceil(2).checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Phase;
    use crate::schema::Scale;

    fn draws() -> Draws {
        Draws::new(3, Scale::divided(1), Phase::Run)
    }

    #[test]
    fn a_hundred_transactions_are_the_mix() {
        let (mut deck, mut draws) = (Deck::default(), draws());
        let hands: Vec<Vec<Kind>> =
            (0..2).map(|_| (0..100).map(|_| deck.next(&mut draws)).collect()).collect();
        assert_ne!(hands[0], hands[1]);
        for hand in hands {
            for (kind, count) in Kind::MIX {
                assert_eq!(hand.iter().filter(|other| **other == kind).count(), count, "{kind:?}");
            }
        }
    }

    #[test]
    fn terminals_are_spread_and_know_the_others() {
        let homes: Vec<(u64, u64)> =
            (0..6).map(|n| Terminal::new(n, 2)).map(|t| (t.warehouse, t.district)).collect();
        assert_eq!(homes, [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)]);
        let mut draws = draws();
        let terminal = Terminal::new(1, 3);
        let mut seen: Vec<u64> = (0..100).map(|_| terminal.remote(&mut draws)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 3]);
        assert_eq!(Terminal::new(5, 1).remote(&mut draws), 1);
    }

    #[test]
    fn entered_values_follow_clause_2() {
        let (mut draws, terminal) = (draws(), Terminal::new(0, 2));
        let (mut lines, mut remote, mut wrong, mut elsewhere, mut names) = (0, 0, 0, 0, 0);
        for _ in 0..20_000 {
            let order = NewOrder::draw(terminal, &mut draws);
            assert!((5..=15).contains(&order.lines.len()) && (1..=10).contains(&order.district));
            lines += order.lines.len();
            remote += order.lines.iter().filter(|line| line.supplier != 1).count();
            let last = order.lines.len() - 1;
            let unknown = |line: &new_order::Line| line.item > 100_000;
            assert!(!order.lines[..last].iter().any(unknown), "only the last item is unknown");
            wrong += usize::from(unknown(&order.lines[last]));
            assert!(order.lines.iter().all(|line| (1..=10).contains(&line.quantity)));
            let payment = Payment::draw(terminal, &mut draws);
            assert!((100..=500_000).contains(&payment.amount));
            elsewhere += usize::from(payment.customer_place.0 != 1);
            names += usize::from(matches!(payment.who, Who::Name(_)));
            let threshold = StockLevel::draw(terminal, &mut draws).threshold;
            assert!((10..=20).contains(&threshold));
        }
        assert!((9.9..10.1).contains(&(lines as f64 / 20_000.0)), "{lines} lines");
        assert!((0.009..0.011).contains(&(remote as f64 / lines as f64)), "{remote} remote lines");
        assert!((150..250).contains(&wrong), "{wrong} of 20000 rolled back");
        assert!((2_800..3_200).contains(&elsewhere), "{elsewhere} of 20000 from elsewhere");
        assert!((11_700..12_300).contains(&names), "{names} of 20000 by name");
    }
}
