//! What a session tells about itself.

use collation::CollationId;
use sqltype::Datum;

use super::frame::string;
use super::{Evaluated, Frame, Function, Signature};
use crate::error::SqlError;
use crate::result_type::{Coercibility, Collating, ResultType};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::of_statement(
        "version",
        0,
        0,
        |s| s.system_text(60),
        |f| string(f.context.facts.version.to_string()),
    ),
    Function::of_statement(
        "database",
        0,
        0,
        |s| s.maybe_system_text(64),
        |f| {
            Ok(match &f.context.facts.database {
                Some(database) => Datum::text(database),
                None => Datum::Null,
            })
        },
    ),
    Function::of_statement(
        "user",
        0,
        0,
        |s| s.system_text(288),
        |f| string(f.context.facts.user.to_string()),
    ),
    Function::of_statement(
        "current_user",
        0,
        0,
        |s| s.system_text(288),
        |f| string(f.context.facts.current_user.to_string()),
    ),
    Function::of_statement(
        "current_role",
        0,
        0,
        |s| s.system_text(1024),
        |f| string(f.context.facts.current_role.to_string()),
    ),
    Function::of_statement(
        "connection_id",
        0,
        0,
        |s| s.unsigned(),
        |f| Ok(Datum::UInt(f.context.facts.connection_id)),
    ),
    Function::of_statement(
        "last_insert_id",
        0,
        0,
        |s| s.unsigned(),
        |f| Ok(Datum::UInt(f.context.last_insert_id)),
    ),
    Function::volatile("last_insert_id(n)", 1, 1, |s| s.unsigned(), set_last_insert_id),
    Function::of_statement(
        "row_count",
        0,
        0,
        |s| s.certain_integer(21),
        |f| Ok(Datum::Int(f.context.row_count)),
    ),
    Function::of_statement(
        "found_rows",
        0,
        0,
        |s| s.unsigned(),
        |f| Ok(Datum::UInt(f.context.found_rows)),
    ),
    Function::of_statement(
        "mysql_query_attribute_string",
        1,
        1,
        |s| Ok(ResultType { nullable: true, ..s.text(ATTRIBUTE_LENGTH)? }),
        query_attribute,
    ),
];

/// Characters of a query attribute.
const ATTRIBUTE_LENGTH: u64 = 16_383;

impl Signature<'_> {
    /// A text about the system.
    pub(super) fn system_text(&self, length: u32) -> Result<ResultType, SqlError> {
        let collating = Collating {
            collation: CollationId::UTF8MB3_GENERAL_CI,
            coercibility: Coercibility::SystemConstant,
            ascii: true,
        };
        Ok(ResultType::text(length, collating, false))
    }

    fn maybe_system_text(&self, length: u32) -> Result<ResultType, SqlError> {
        Ok(ResultType { nullable: true, ..self.system_text(length)? })
    }
}

/// LAST_INSERT_ID(n): what it is from now on.
fn set_last_insert_id(f: &mut Frame<'_, '_>) -> Evaluated {
    let is_null = f.is_null(0)?;
    let id = if is_null { 0 } else { f.bits(0)? };
    f.context.last_insert_id = id;
    f.context.last_insert_id_set = true;
    Ok(if is_null { Datum::Null } else { Datum::UInt(id) })
}

/// What the client attached to its command under a name.
fn query_attribute(f: &mut Frame<'_, '_>) -> Evaluated {
    let name = f.string(0)?;
    let attributes = f.context.query_attributes.iter().flat_map(|all| all.iter());
    let value = attributes.rev().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
    Ok(value.unwrap_or(Datum::Null))
}
