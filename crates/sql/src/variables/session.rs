//! What a session sees of variables: its own values, the server's, and those that follow from what
//! it is.

use sql_expression::SqlError;
use sql_parser::ast::{SystemVariable, VariableScope};
use sqltype::{Datum, SqlType, TypeKind};

use super::compression::{ALGORITHMS, Algorithm, Algorithms, NAME};
use super::registry::{self, Kind, Scope, Variable};
use super::{computed, unknown};
use crate::session::Session;

/// The value of `@@name` with its type; errors 1193 and 1238.
pub(crate) fn lookup(
    session: &Session,
    reference: &SystemVariable,
) -> Result<(Datum, SqlType), SqlError> {
    let name = reference.name.as_str().to_ascii_lowercase();
    let shown = match &reference.component {
        None => name.clone(),
        Some(component) => format!("{component}.{name}"),
    };
    // `default.x` is a key cache's.
    let variable = match &reference.component {
        Some(component) if !component.eq_ignore_ascii_case("default") => {
            registry::find(&shown.to_ascii_lowercase())
        }
        _ => registry::find(&name),
    };
    let variable = variable.ok_or_else(|| unknown(&shown))?;
    let global = match (reference.scope, variable.scope) {
        (Some(VariableScope::Session), Scope::Global) => {
            return Err(wrong_scope(variable.name, "GLOBAL"));
        }
        (Some(scope), Scope::Session) if scope != VariableScope::Session => {
            return Err(wrong_scope(variable.name, "SESSION"));
        }
        (None | Some(VariableScope::Session), _) => variable.scope == Scope::Global,
        (Some(_), _) => true,
    };
    Ok(typed(variable, shown_text(session, variable, global)))
}

/// A variable as SHOW VARIABLES prints it; none for NULL.
pub(crate) fn shown_text(session: &Session, variable: &Variable, global: bool) -> Option<String> {
    if let Some(value) = computed::value(session, variable.name, global) {
        return value;
    }
    if !global {
        return session.variables.text(variable).map(str::to_owned);
    }
    let registry = session.shared.directory.lock();
    let given = registry.globals.get(variable.name).cloned();
    given.or_else(|| variable.initial.map(str::to_owned))
}

/// A variable's value as an expression has it.
fn typed(variable: &Variable, text: Option<String>) -> (Datum, SqlType) {
    let sql_type = match variable.kind {
        Kind::Switch | Kind::Signed(..) => SqlType::big_int(),
        Kind::Integer(..) => SqlType::unsigned_big_int(),
        Kind::Real(..) | Kind::Timestamp => SqlType { decimals: 6, ..SqlType::double() },
        _ => {
            let length = text.as_ref().map_or(0, |text| text.chars().count() as u32);
            SqlType { kind: TypeKind::VarChar, ..SqlType::text(length) }
        }
    };
    let Some(text) = text else { return (Datum::Null, sql_type) };
    let datum = match variable.kind {
        Kind::Switch => Datum::Int((text == "ON").into()),
        Kind::Signed(..) => Datum::Int(text.parse().unwrap_or_default()),
        Kind::Integer(..) => Datum::UInt(text.parse().unwrap_or_default()),
        Kind::Real(..) | Kind::Timestamp => Datum::Double(text.parse().unwrap_or_default()),
        _ => Datum::text(&text),
    };
    (datum, sql_type)
}

/// 1238: it has no value there.
fn wrong_scope(name: &str, scope: &str) -> SqlError {
    SqlError::new(1238, "HY000", format!("Variable '{name}' is a {scope} variable"))
}

/// How clients who connect now may have their connections packed.
pub(crate) fn compression(session: &Session) -> Algorithms {
    let variable = registry::find(NAME).expect("it is in the table");
    Algorithms::named(shown_text(session, variable, true))
}

/// What SHOW STATUS says of a connection.
pub(crate) fn compression_status(session: &Session) -> [(&'static str, String); 3] {
    let (is_on, algorithm, level) = if session.is_compressed {
        ("ON", ALGORITHMS[Algorithm::Zlib as usize], mysql_wire::FRAME_LEVEL)
    } else {
        ("OFF", "", 0)
    };
    [
        ("Compression", is_on.to_owned()),
        ("Compression_algorithm", algorithm.to_owned()),
        ("Compression_level", level.to_string()),
    ]
}
