//! What the arrival of a result says: that a data node has answered, and how much it has sent.

use client::{ClientResult, OperationAnswer, Traffic};
use model::{Epoch, Value};

/// Whether a result is surely what a data node with a lease has answered.
pub(super) fn is_from_data_node(result: &ClientResult) -> bool {
    match result {
        ClientResult::Read(rows) => !rows.is_empty(),
        ClientResult::Executed(answers) => !answers.is_empty(),
        ClientResult::Committed { epoch, .. } => *epoch > Epoch::default(),
        ClientResult::SnapshotOpened(_) => true,
        _ => false,
    }
}

/// What a result has brought from data nodes.
pub(super) fn traffic(result: &ClientResult) -> Traffic {
    let of_row = |row: &Vec<Value>| {
        let bytes: usize = row.iter().map(size_of_value).sum();
        Traffic { rows: 1, bytes: bytes as u64, ..Traffic::default() }
    };
    let mut all = Traffic { messages: 1, ..Traffic::default() };
    match result {
        ClientResult::ScanRows { traffic, .. } => return *traffic,
        ClientResult::Read(rows) => rows.iter().flatten().for_each(|row| all.add(of_row(row))),
        ClientResult::Executed(answers) | ClientResult::Committed { answers, .. } => {
            for answer in answers {
                if let Ok(OperationAnswer::Row(row)) = answer {
                    all.add(of_row(row));
                }
            }
        }
        _ => return Traffic::default(),
    }
    all
}

/// Bytes of a value in a stored row, about.
fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bytes(bytes) => bytes.len(),
        _ => 8,
    }
}
