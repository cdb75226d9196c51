//! Draws operations on an owner's rows and says what they must answer.

use std::collections::BTreeSet;

use client::{ClientOperation, OperationAction, OperationAnswer};
use model::{ColumnId, Comparison, ErrorCode, Expression, Table, Value};
use wire::{Effect, LockMode};

use super::{AMOUNT, BODY, CATEGORY, KEYS, Rows, TAG, key, put};
use crate::session::Session;

/// A good answer.
#[derive(Clone, Debug)]
pub(super) enum Good {
    /// The row, with the columns known.
    Row(Vec<Value>),
    /// A change; whether the row was there before, and whether its known columns stay.
    Written { existed: bool, same: bool },
}

/// What an operation must answer, but for refusals that may pass.
pub(super) type Expected = Result<Good, ErrorCode>;

impl Good {
    pub(super) fn matches(&self, answer: &OperationAnswer) -> bool {
        match (self, answer) {
            (Good::Row(known), OperationAnswer::Row(row)) => row[..known.len()] == known[..],
            (Good::Written { existed, same }, OperationAnswer::Written(effect)) => {
                effect.existed() == *existed && (*same || *effect != Effect::Unchanged)
            }
            _ => false,
        }
    }
}

/// The rows of an owner as a transaction leaves them.
pub(super) struct Draft {
    pub(super) owner: i64,
    pub(super) rows: Rows,
    /// Restarts of the whole cluster when the rows were these.
    pub(super) generation: usize,
}

/// Tags an owner uses.
const TAGS: u64 = 5;

impl Draft {
    pub(super) fn new(owner: i64, rows: Rows, generation: usize) -> Self {
        Self { owner, rows, generation }
    }

    /// Whether a restart may have changed the rows meanwhile.
    pub(super) fn is_outdated(&self, session: &Session) -> bool {
        session.generation() != self.generation
    }

    /// The name of one of the owner's tags.
    pub(super) fn tag(owner: i64, number: u64) -> Value {
        Value::text(&format!("{owner}-{number}"))
    }

    /// The row that bears a tag.
    pub(super) fn bearer(&self, tag: &Value) -> Option<&Vec<Value>> {
        self.rows.values().find(|row| row[usize::from(TAG.0)] == *tag)
    }

    /// Draws a batch and applies it. Operations on different rows of a batch run in any order, so
    /// no two of them touch the same tag, and a refused row is left alone.
    pub(super) fn draw_batch(
        &mut self,
        session: &Session,
        table: &Table,
        count: u64,
    ) -> (Vec<ClientOperation>, Vec<Expected>) {
        let (mut operations, mut expected) = (Vec::new(), Vec::new());
        let mut tags: BTreeSet<String> = BTreeSet::new();
        let mut refused: BTreeSet<i64> = BTreeSet::new();
        while operations.is_empty() || (operations.len() as u64) < count && session.percent(90) {
            let id = session.below(KEYS) as i64;
            let operation = self.draw(session, table, id);
            let touched = self.tags_of(id, &operation);
            if refused.contains(&id) || touched.iter().any(|tag| tags.contains(tag)) {
                continue;
            }
            tags.extend(touched);
            let answer = self.apply(id, &operation);
            if answer.is_err() {
                refused.insert(id);
            }
            operations.push(operation);
            expected.push(answer);
        }
        (operations, expected)
    }

    fn draw_row(&self, session: &Session, id: i64) -> Vec<Value> {
        vec![
            Value::Int(self.owner),
            Value::Int(id),
            Value::Int(session.below(200) as i64 - 100),
            if session.percent(20) { Value::Null } else { Value::Int(session.below(5) as i64) },
            if session.percent(60) {
                Value::Null
            } else {
                Self::tag(self.owner, session.below(TAGS))
            },
            Self::draw_body(session),
        ]
    }

    fn draw_body(session: &Session) -> Value {
        let size = match session.below(20) {
            0 => 9_000,
            1..4 => session.below(3_000),
            4..12 => session.below(40),
            _ => return Value::Null,
        };
        let fill = session.below(256) as u8;
        Value::Bytes(vec![fill; size as usize].into())
    }

    fn draw(&self, session: &Session, table: &Table, id: i64) -> ClientOperation {
        let key = key(self.owner, id);
        let constant = |value| Expression::Constant(value);
        match session.below(12) {
            0..3 => put(table, &self.draw_row(session, id), false),
            3 => put(table, &self.draw_row(session, id), true),
            4 | 5 => {
                let step = session.below(4_000) as i64 - 1_000;
                ClientOperation::update(
                    table.id,
                    key,
                    vec![(AMOUNT, Expression::add(AMOUNT, step))],
                )
            }
            6 => {
                let enough = Expression::compare(AMOUNT, Comparison::Greater, Value::Int(0));
                let change = (CATEGORY, constant(Value::Int(session.below(5) as i64)));
                ClientOperation::update_if(table.id, key, enough, vec![change])
            }
            7 => {
                let tag = Self::tag(self.owner, session.below(TAGS));
                ClientOperation::update(table.id, key, vec![(TAG, constant(tag))])
            }
            8 => {
                let body = constant(Self::draw_body(session));
                ClientOperation::update(
                    table.id,
                    key,
                    vec![(BODY, body), (TAG, constant(Value::Null))],
                )
            }
            9 => ClientOperation::delete(table.id, key),
            _ => {
                let locks = [LockMode::Committed, LockMode::Shared, LockMode::Exclusive];
                let lock = session.draw(|prng| *prng.pick(&locks));
                ClientOperation::read_locked(table.id, key, lock)
            }
        }
    }

    /// Tags that an operation takes or gives up.
    fn tags_of(&self, id: i64, operation: &ClientOperation) -> Vec<String> {
        let tag_column = usize::from(TAG.0);
        let old = self.rows.get(&id).map(|row| row[tag_column].clone());
        let new = match &operation.action {
            OperationAction::Read { .. } => return vec![],
            OperationAction::Insert { row } | OperationAction::Upsert { row } => {
                Some(row[tag_column].clone())
            }
            OperationAction::Update { assignments, .. } => {
                assignments.iter().find_map(|(column, value)| match value {
                    Expression::Constant(value) if *column == TAG => Some(value.clone()),
                    _ => None,
                })
            }
            OperationAction::Delete { .. } => None,
        };
        let tags = old.into_iter().chain(new).filter(|tag| *tag != Value::Null);
        tags.map(|tag| tag.to_string()).collect()
    }

    /// Applies an operation as the database must.
    fn apply(&mut self, id: i64, operation: &ClientOperation) -> Expected {
        let there = self.rows.get(&id).cloned();
        match &operation.action {
            OperationAction::Read { .. } => match there {
                Some(row) => Ok(Good::Row(row)),
                None => Err(ErrorCode::RowNotFound),
            },
            OperationAction::Insert { row } => match there {
                Some(_) => Err(ErrorCode::RowExists),
                None => self.store(id, row, false),
            },
            OperationAction::Upsert { row } => self.store(id, row, there.is_some()),
            OperationAction::Update { condition, assignments, .. } => {
                let mut row = there.ok_or(ErrorCode::RowNotFound)?;
                let amount = super::super::int(&row[usize::from(AMOUNT.0)]);
                if condition.is_some() && amount <= 0 {
                    return Err(ErrorCode::ConditionFalse);
                }
                for (column, value) in assignments {
                    let value = match value {
                        Expression::Constant(value) => value.clone(),
                        sum => Self::sum(sum, *column, amount)?,
                    };
                    row[usize::from(column.0)] = value;
                }
                self.store(id, &row, true)
            }
            OperationAction::Delete { .. } => {
                self.rows.remove(&id).ok_or(ErrorCode::RowNotFound)?;
                Ok(Good::Written { existed: true, same: false })
            }
        }
    }

    /// The amount column holds two bytes.
    fn sum(sum: &Expression, column: ColumnId, amount: i64) -> Result<Value, ErrorCode> {
        assert_eq!(column, AMOUNT, "only amounts are added to");
        let Expression::Arithmetic(_, _, step) = sum else { panic!("a sum, not {sum:?}") };
        let Expression::Constant(step) = &**step else { panic!("a constant step") };
        let value = amount + super::super::int(step);
        match i16::try_from(value) {
            Ok(_) => Ok(Value::Int(value)),
            Err(_) => Err(ErrorCode::ValueOutOfRange),
        }
    }

    fn store(&mut self, id: i64, row: &[Value], existed: bool) -> Expected {
        let row = row[..super::COLUMNS].to_vec();
        let tag = &row[usize::from(TAG.0)];
        let taken = self.bearer(tag).is_some_and(|other| super::super::int(&other[1]) != id);
        if *tag != Value::Null && taken {
            return Err(ErrorCode::UniqueViolation);
        }
        let same = self.rows.get(&id).is_some_and(|before| *before == row);
        self.rows.insert(id, row);
        Ok(Good::Written { existed, same })
    }
}
