//! Statements that came as text, kept prepared by what they are without their literals.
//!
//! # Owns
//! [`StatementCache`]; the values of literals that were taken out of texts.
//! # Limits
//! Beyond some thousand texts, or some megabytes of them, all are forgotten.

use std::cell::{Cell, RefCell};

use sql_parser::{Literals, RowLiteral, SqlMode, ast};
use sqltype::Datum;
use stdx::HashMap;

use crate::prepared::Prepared;
use crate::traits::{Place, StatementTraits};

/// Statements that came as text, prepared, by the key of the text without its literals.
#[derive(Debug, Default)]
pub(crate) struct StatementCache {
    entries: RefCell<HashMap<u128, Prepared>>,
    /// Taken out by whoever uses them.
    literals: RefCell<Option<Box<Literals>>>,
    /// Bytes of the texts kept.
    size: Cell<usize>,
}

/// Most texts kept; beyond it all are forgotten.
const TEXTS_MAX: usize = 4_096;
/// Most bytes of the texts kept, likewise. What they are parsed to is many times as large.
const TEXTS_SIZE_MAX: usize = 4 << 20;

impl StatementCache {
    /// The statement that a text is but for its literals, with these as parameters. A text seen for
    /// the first time is parsed in this form, if it has one. Nothing either where `look`, asked now
    /// and then, says that the work is to end.
    pub(crate) fn find(
        &self,
        text: &[u8],
        mode: SqlMode,
        look: &dyn Fn() -> bool,
    ) -> Option<(Prepared, Vec<Datum>)> {
        // Others may come while this is in the middle of a long text.
        let mut literals = self.literals.take().unwrap_or_default();
        let found = self.find_with(text, mode, look, &mut literals);
        self.literals.replace(Some(literals));
        found
    }

    fn find_with(
        &self,
        text: &[u8],
        mode: SqlMode,
        look: &dyn Fn() -> bool,
        literals: &mut Literals,
    ) -> Option<(Prepared, Vec<Datum>)> {
        let key = sql_parser::parameterise(text, mode, literals, look)?;
        let known = self.entries.borrow().get(&key).cloned();
        let prepared = match known {
            Some(prepared) => prepared,
            None => {
                let parsed = sql_parser::parse_parameterised(text, mode, literals, look);
                let statement = parsed.ok()??;
                // Others gain nothing: they are planned anew each time.
                if statement.traits().place != Place::Planned {
                    return None;
                }
                let own = literals.text_without_rows(text);
                let shown = String::from_utf8_lossy(&own);
                let prepared = Prepared::new(statement, shown.trim(), literals.len());
                let mut entries = self.entries.borrow_mut();
                let size = self.size.get() + own.len();
                if entries.len() >= TEXTS_MAX || size > TEXTS_SIZE_MAX {
                    entries.clear();
                    self.size.set(0);
                }
                entries.insert(key, prepared.clone());
                self.size.set(self.size.get() + own.len());
                prepared
            }
        };
        let parameters = literals.values(text, mode).map(datum_of_literal).collect();
        let prepared = match literals.take_rows(text, mode) {
            Some(rows) => prepared.with_rows(rows),
            None => prepared,
        };
        Some((prepared, parameters))
    }
}

/// The value of a literal of a row that was taken out of an INSERT, as the binder has it.
pub(crate) fn datum_of_row_literal(literal: RowLiteral) -> Datum {
    match (datum_of_literal(literal.literal), literal.negative) {
        (Datum::Int(number), true) => Datum::Int(-number),
        (Datum::Decimal(number), true) => Datum::Decimal(number.negate()),
        (Datum::Double(number), true) => Datum::Double(-number),
        // A number of more digits than a DECIMAL has.
        (Datum::Bytes(digits), true) => Datum::Bytes([b"-", &*digits].concat().into()),
        (value, _) => value,
    }
}

/// A literal's value, as the binder has it.
fn datum_of_literal(literal: ast::Literal) -> Datum {
    match literal {
        ast::Literal::Integer(number) => match i64::try_from(number) {
            Ok(number) => Datum::Int(number),
            Err(_) => Datum::UInt(number),
        },
        ast::Literal::Decimal(text) => match sqltype::Decimal::parse(text.as_bytes()) {
            Some(number) => Datum::Decimal(number),
            None => Datum::text(&text),
        },
        ast::Literal::Float(text) => Datum::Double(text.parse().unwrap_or(0.0)),
        ast::Literal::String(bytes) => Datum::Bytes(bytes),
        _ => Datum::Null,
    }
}
