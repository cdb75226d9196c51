//! Frames and what is computed over them, against a naive model.

use std::sync::Arc;

use sql_parser::ast::{AggregateFunction, FrameUnit};
use sqltype::{Datum, SqlType, TypeKind};
use stdx::Prng;

use super::*;
use crate::context::SessionFacts;
use crate::expression::Expression;

fn column(place: u32, kind: TypeKind) -> Expression {
    let result = ResultType::column(SqlType::new(kind, 20), true);
    Expression::column(place, Arc::default(), result)
}

fn constant(value: i64) -> Expression {
    let result = ResultType::of(SqlType::big_int(), false);
    Expression::constant(Datum::Int(value), result)
}

fn context() -> EvalContext {
    EvalContext::new(Arc::new(SessionFacts::new()), 0, 1)
}

/// Rows of a key in order, with some NULL, and a value.
fn rows(prng: &mut Prng, count: u64, descending: bool) -> Vec<Vec<Datum>> {
    let mut rows: Vec<Vec<Datum>> = (0..count)
        .map(|_| {
            let key = match prng.below(8) {
                0 => Datum::Null,
                _ => Datum::Int(prng.below(30) as i64),
            };
            let value = match prng.below(6) {
                0 => Datum::Null,
                _ => Datum::Int(prng.below(100) as i64 - 50),
            };
            vec![key, value]
        })
        .collect();
    rows.sort_by(|a, b| {
        let order = compare_values(&a[0], &b[0], &SqlType::big_int());
        if descending { order.reverse() } else { order }
    });
    rows
}

fn end(prng: &mut Prng, unit: FrameUnit, following: bool) -> FrameEnd {
    let far = constant(prng.below(6) as i64);
    match (prng.below(4), unit) {
        (0, _) => FrameEnd::Unbounded,
        (1, _) => FrameEnd::CurrentRow,
        (_, FrameUnit::Rows) => FrameEnd::Rows { count: far, following },
        _ => FrameEnd::Distance { distance: far, following },
    }
}

/// Whether a row belongs to the frame of another, by the definition.
fn belongs(rows: &[Vec<Datum>], window: &Window, at: usize, other: usize) -> bool {
    let number = |row: usize| match rows[row][0] {
        Datum::Int(number) => Some(number),
        _ => None,
    };
    // How far the other row lies behind this one, in the direction of the order.
    let sign = if window.order_by[0].descending { -1 } else { 1 };
    let constant = |expression: &Expression| match expression.as_constant() {
        Some(Datum::Int(number)) => *number,
        other => panic!("{other:?}"),
    };
    let holds = |end: &FrameEnd, is_start: bool| {
        let place = other as i64 - at as i64;
        let (distance, place) = match end {
            FrameEnd::Unbounded => return true,
            FrameEnd::CurrentRow if window.frame.unit == FrameUnit::Rows => (0, place),
            FrameEnd::Rows { count, following: true } => (constant(count), place),
            FrameEnd::Rows { count, .. } => (-constant(count), place),
            FrameEnd::CurrentRow | FrameEnd::Distance { .. } => {
                let distance = match end {
                    FrameEnd::Distance { distance, following: true } => constant(distance),
                    FrameEnd::Distance { distance, .. } => -constant(distance),
                    _ => 0,
                };
                match (number(at), number(other)) {
                    (Some(here), Some(there)) => (distance, sign * (there - here)),
                    (None, None) => (0, 0),
                    // NULL is smaller than all.
                    (Some(_), None) => (0, -sign),
                    (None, Some(_)) => (0, sign),
                }
            }
            FrameEnd::Interval { .. } => panic!("not drawn here"),
        };
        if is_start { place >= distance } else { place <= distance }
    };
    holds(&window.frame.start, true) && holds(&window.frame.end, false)
}

#[test]
fn sliding_aggregates_are_those_over_the_frame() {
    let mut prng = Prng::new(7);
    let mut context = context();
    let functions = [
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Avg,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::BitXor,
        AggregateFunction::JsonArrayAgg,
    ];
    for round in 0..600 {
        let unit = if prng.percent(50) { FrameUnit::Rows } else { FrameUnit::Range };
        let descending = prng.percent(50);
        let count = prng.below(40);
        let rows = rows(&mut prng, count, descending);
        let (from, to) = (prng.percent(33), prng.percent(66));
        let (start, end) = (end(&mut prng, unit, from), end(&mut prng, unit, to));
        let frame = Frame { unit, start, end, given: true };
        let order_by = vec![SortKey { expression: column(0, TypeKind::BigInt), descending }];
        let window = Window { name: "w".into(), partition_by: Vec::new(), order_by, frame };
        let function = functions[prng.below(functions.len() as u64) as usize];
        let facts = SessionFacts::new();
        let values = vec![column(1, TypeKind::BigInt)];
        let aggregate =
            AggregateCall::derive(function, false, values, Vec::new(), None, &facts).unwrap();
        let result = aggregate.result.clone();
        let kind = WindowKind::Aggregate(Box::new(aggregate.clone()));
        let call = WindowCall { kind, window, result };
        let peers = peers(&call.window.order_by, &rows);
        let mut work = WindowEvaluation::new(&call, &rows, &peers, &mut context).unwrap();
        for at in 0..rows.len() {
            let found = work.value(at, &mut context).unwrap();
            let mut naive = crate::aggregate::Accumulator::new(&aggregate);
            for (other, row) in rows.iter().enumerate() {
                if belongs(&rows, &call.window, at, other) {
                    naive.update(&aggregate, row, &mut context).unwrap();
                }
            }
            let expected = naive.finish(&aggregate, &mut context).unwrap();
            assert_eq!(
                found, expected,
                "round {round}, row {at}: {:?} {rows:?}",
                call.window.frame
            );
        }
    }
}

#[test]
fn rows_are_dealt_out_evenly() {
    let deal = |count: usize, parts: u64| -> Vec<u64> {
        (0..count).map(|at| tile(at, count, parts)).collect()
    };
    assert_eq!(deal(7, 3), [1, 1, 1, 2, 2, 3, 3]);
    assert_eq!(deal(2, 5), [1, 2]);
    assert_eq!(deal(6, 3), [1, 1, 2, 2, 3, 3]);
    assert_eq!(deal(3, u64::MAX), [1, 2, 3]);
}
