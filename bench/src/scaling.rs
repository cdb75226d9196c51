//! What operations cost in messages, for clusters of any shape.
//!
//! # Owns
//! The operations that are counted: statements of sysbench's table, as clients send them.
//! # Guarantees
//! Two counts are the same: nothing is drawn, and no time passes, so that nothing travels but what
//! the operations need.
//! # Not here
//! What the counts mean for clusters that are larger than a table of them (`docs/scaling.md`).

use stdx::Duration;

use crate::client::{Client, Command, Expected, Parameter, Statement};
use crate::cluster::{Cluster, Shape, Traffic};
use crate::paths::{ROWS, fill, fill_large, key_of, large_text, long_text};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One row by its primary key.
    Select,
    /// One column of such a row, in autocommit.
    Update,
    /// One row, likewise.
    Insert,
    /// One row with a value that lies outside of it, likewise.
    InsertLarge,
    /// Ten updates between BEGIN and COMMIT.
    TenUpdates,
    /// A hundred rows of a range of the primary key.
    Range,
}

/// All operations.
pub const OPERATIONS: [Operation; 6] = [
    Operation::Select,
    Operation::Update,
    Operation::Insert,
    Operation::InsertLarge,
    Operation::TenUpdates,
    Operation::Range,
];

/// Operations that are counted, after some that are not.
const COUNTED: u32 = 200;
const WARM_UP: u32 = 20;
/// How long a cluster without work is counted.
const IDLE_SECONDS: u32 = 20;

/// What an operation takes on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Each {
    /// Messages, those between actors of one worker included.
    pub messages: f64,
    /// Messages between workers of a node.
    pub between_workers: f64,
    /// Messages between nodes.
    pub between_nodes: f64,
    /// Bytes of these.
    pub bytes: f64,
}

impl Operation {
    /// What it is called in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select by key",
            Self::Update => "update by key",
            Self::Insert => "insert",
            Self::InsertLarge => "insert of a value of 10 kB",
            Self::TenUpdates => "transaction of 10 updates",
            Self::Range => "range of 100 rows",
        }
    }

    fn commands(self, statement: Statement, number: u32) -> Vec<Command> {
        let id = |at| Parameter::Int(key_of(number * 10 + at, ROWS));
        let text = long_text(ROWS + number);
        let update = |at| {
            let parameters = [Parameter::Text(&text), id(at)];
            Command::execute(statement, &parameters, Expected::Changed(1))
        };
        match self {
            Self::Select => vec![Command::execute(statement, &[id(0)], Expected::Rows(1))],
            Self::Update => vec![update(0)],
            Self::Insert => {
                let parameters = [Parameter::Int(1), Parameter::Text(&text)];
                vec![Command::execute(statement, &parameters, Expected::Changed(1))]
            }
            Self::InsertLarge => {
                let value = large_text(number);
                let parameters = [Parameter::Text(&value)];
                vec![Command::execute(statement, &parameters, Expected::Changed(1))]
            }
            Self::TenUpdates => {
                let begin = Command::text("BEGIN", Expected::Changed(0));
                let commit = Command::text("COMMIT", Expected::Changed(0));
                let updates = (0..10).map(update);
                std::iter::once(begin).chain(updates).chain([commit]).collect()
            }
            Self::Range => {
                let first = key_of(number, ROWS - 100);
                let ends = [Parameter::Int(first), Parameter::Int(first + 99)];
                vec![Command::execute(statement, &ends, Expected::Rows(100))]
            }
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Select => "SELECT c FROM sbtest1 WHERE id=?",
            Self::Update | Self::TenUpdates => "UPDATE sbtest1 SET c=? WHERE id=?",
            Self::Insert => "INSERT INTO sbtest1 (k, c) VALUES (?, ?)",
            Self::InsertLarge => "INSERT INTO large1 (b) VALUES (?)",
            Self::Range => "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
        }
    }
}

/// What an operation takes in a cluster of a shape.
pub fn counted(operation: Operation, shape: Shape) -> Each {
    let mut client = Client::new(Cluster::start(shape));
    fill(&mut client);
    fill_large(&mut client);
    let statement = client.prepare(operation.text());
    run(&mut client, operation, statement, 0..WARM_UP);
    client.cluster().count_traffic();
    run(&mut client, operation, statement, WARM_UP..WARM_UP + COUNTED);
    each(client.cluster().traffic(), COUNTED)
}

/// What a cluster of a shape without any work takes in a second.
pub fn idle(shape: Shape) -> Each {
    let mut client = Client::new(Cluster::start(shape));
    client.cluster().count_traffic();
    client.cluster().run_for(Duration::from_secs(IDLE_SECONDS.into()));
    each(client.cluster().traffic(), IDLE_SECONDS)
}

fn each(traffic: Traffic, times: u32) -> Each {
    let each = |count: u64| count as f64 / f64::from(times);
    Each {
        messages: each(traffic.messages),
        between_workers: each(traffic.between_workers),
        between_nodes: each(traffic.between_nodes),
        bytes: each(traffic.bytes),
    }
}

fn run(
    client: &mut Client,
    operation: Operation,
    statement: Statement,
    numbers: std::ops::Range<u32>,
) {
    for command in numbers.flat_map(|number| operation.commands(statement, number)) {
        client.ask(&command);
    }
    // What comes after the answer belongs to the operation, too.
    client.cluster().settle();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row and the parts of its value lie with the same workers, however many there are.
    #[test]
    fn a_value_outside_of_its_row_takes_no_leg_of_its_own() {
        let shape = |workers| Shape { data_nodes: 2, replicas: 2, workers };
        let alone = counted(Operation::InsertLarge, shape(1));
        for workers in 2..=4 {
            let each = counted(Operation::InsertLarge, shape(workers));
            assert_eq!(each, alone, "{workers} workers");
        }
    }
}
