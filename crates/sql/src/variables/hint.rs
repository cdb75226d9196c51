//! SET_VAR: variables that have another value for one statement.
//!
//! # Owns
//! Which variables a hint can set; giving them their values and taking these back.
//! # Guarantees
//! After the statement each variable has the value it had before, however the statement ended.
//! Clients are told of neither change.

use std::rc::Rc;

use sql_expression::{SqlError, SqlMode};
use sql_parser::ast::HintValue;
use sqltype::Datum;

use super::registry::{self, Variable};
use super::value;
use crate::hint::StatementHints;
use crate::session::Session;

/// What there was before the hints of a statement.
#[derive(Debug)]
pub(crate) struct Before {
    hints: Option<Rc<StatementHints>>,
    values: Vec<(&'static Variable, Option<String>)>,
}

impl Session {
    /// Makes the hints of a statement count, or none.
    pub(crate) fn take_hints(&mut self, hints: Option<&Rc<StatementHints>>) -> Before {
        let mut before = Before {
            hints: std::mem::replace(&mut self.hints, hints.cloned()),
            values: Vec::new(),
        };
        self.hint_warnings.take();
        let Some(hints) = hints else { return before };
        let mut warnings = hints.warnings.clone();
        for (name, value) in &hints.variables {
            let Some(variable) = registry::find(name) else { continue };
            match self.checked(variable, value, &mut warnings) {
                Ok(text) => {
                    before.values.push((variable, self.present(variable)));
                    self.variables.assign_untold(variable.name, text);
                }
                Err(error) => warnings.push(error),
            }
        }
        self.hint_warnings.replace(warnings);
        before
    }

    /// Undoes [`Session::take_hints`]: what they had to say comes before other warnings.
    pub(crate) fn drop_hints(&mut self, before: Before) {
        self.hints = before.hints;
        for (variable, text) in before.values.into_iter().rev() {
            self.variables.assign_untold(variable.name, text);
        }
    }

    /// The text a variable is to have.
    fn checked(
        &self,
        variable: &Variable,
        value: &HintValue,
        notes: &mut Vec<SqlError>,
    ) -> Result<Option<String>, SqlError> {
        let datum = match value {
            HintValue::Number(number) => number_of(number),
            HintValue::Name(name) => Datum::text(name.as_str()),
            HintValue::Text(text) => Datum::text(text),
        };
        let strictly = self.variables.sql_mode.contains(SqlMode::STRICT_ALL_TABLES);
        value::checked(variable, &datum, strictly, notes)
    }

    /// The text that gives a variable the value it has.
    fn present(&self, variable: &Variable) -> Option<String> {
        match variable.name {
            // An INSERT may have used it up.
            "insert_id" => Some(self.variables.insert_id.unwrap_or_default().to_string()),
            _ => self.variables.text(variable).map(str::to_owned),
        }
    }
}

/// A number as a hint has it, with a letter for its size or without.
fn number_of(text: &str) -> Datum {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let whole = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match whole {
        Some(number) => Datum::UInt(number),
        None => Datum::Double(digits.parse().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_sizes() {
        assert_eq!(number_of("16"), Datum::UInt(16));
        assert_eq!(number_of("2k"), Datum::UInt(2_048));
        assert_eq!(number_of("1G"), Datum::UInt(1 << 30));
        assert_eq!(number_of("1.5"), Datum::Double(1.5));
        assert_eq!(number_of("99999999999999999999"), Datum::Double(1e20));
    }
}
