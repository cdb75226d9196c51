//! Comparisons of the first characters of a text, as patterns.
//!
//! Programs have no SUBSTRING, but they have LIKE: under a collation that compares characters as
//! they are stored, `SUBSTRING(a, 1, 2) IN ('13')` is `a LIKE '13%'`.

use collation::CollationId;
use sqltype::Datum;

use super::form::Form;
use super::{ProgramBuilder, Step, Value};
use crate::comparison::Comparison;
use crate::expression::{Expression, InList, Node};

/// Collations under which texts of as many characters are equal if their bytes are.
const AS_STORED: [CollationId; 2] = [CollationId::UTF8MB4_BIN, CollationId::UTF8MB4_0900_BIN];
/// The character that takes the meaning from those of patterns.
const ESCAPE: char = '\\';

impl ProgramBuilder<'_> {
    /// Whether the first characters of a text are among some texts; none if that is not asked.
    pub(super) fn in_prefixes(&mut self, list: &InList) -> Option<Step> {
        let (text, count) = first_characters(&list.operand)?;
        let pattern = |(value, comparison)| pattern(value, comparison, count);
        let list = list.list.iter().map(|(value, comparison)| (value, *comparison));
        let patterns: Vec<(Box<[u8]>, CollationId)> = list.map(pattern).collect::<Option<_>>()?;
        let Value { node: operand, form: Form::Text(_) } = self.value(text)? else { return None };
        let mut parts = Vec::with_capacity(patterns.len());
        for (pattern, collation) in patterns {
            let (escape, collation) = (Some(u32::from(ESCAPE)), collation.0);
            parts.push(self.add(Step::Like { operand, pattern, escape, collation })?);
        }
        Some(Step::Or(parts))
    }
}

/// The column of which an expression is the first characters, and how many.
fn first_characters(expression: &Expression) -> Option<(&Expression, usize)> {
    let Node::Call(call) = &expression.node else { return None };
    let (text, count) = match (call.function.name, &call.arguments[..]) {
        ("left", [text, count]) => (text, count),
        ("substring", [text, first, count]) if number(first)? == 1 => (text, count),
        _ => return None,
    };
    text.as_column()?;
    // SQL's texts of bytes have no characters.
    text.result.is_text().then_some((text, number(count)?))
}

fn number(expression: &Expression) -> Option<usize> {
    match expression.as_constant()? {
        Datum::Int(number) => usize::try_from(*number).ok(),
        Datum::UInt(number) => usize::try_from(*number).ok(),
        _ => None,
    }
}

/// The pattern of all texts that begin with these characters: so many, and no space at the end,
/// which a shorter text may be equal to.
fn pattern(
    value: &Expression,
    comparison: Comparison,
    count: usize,
) -> Option<(Box<[u8]>, CollationId)> {
    let (Comparison::Text(collation), Datum::Bytes(text)) = (comparison, value.as_constant()?)
    else {
        return None;
    };
    let text = std::str::from_utf8(text).ok()?;
    let fits = text.chars().count() == count && count > 0 && !text.ends_with(' ');
    if !fits || !AS_STORED.contains(&collation) {
        return None;
    }
    let mut pattern = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if matches!(character, '%' | '_' | ESCAPE) {
            pattern.push(ESCAPE);
        }
        pattern.push(character);
    }
    pattern.push('%');
    Some((pattern.into_bytes().into(), collation))
}
