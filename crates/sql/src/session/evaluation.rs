//! A session as expressions see it.
//!
//! # Owns
//! The facts and the context of an evaluation, and what of it the session keeps afterwards.

use std::sync::Arc;

use collation::CollationId;
use sql_expression::{EvalContext, ResultType, SessionFacts, SqlError, UserVariable};
use sql_parser::ast;
use sqltype::{Datum, SqlType, TypeKind};

use crate::account::AccountName;
use crate::account::rights::shown_roles;
use crate::session::{Level, Session};
use crate::variables::{self, VERSION};

impl Session {
    /// What expressions ask about the session; made anew when something in it has changed.
    pub(crate) fn facts(&self) -> Arc<SessionFacts> {
        if let Some((version, database, facts)) = self.facts.borrow().as_ref()
            && *version == self.variables.version
            && *database == self.database
        {
            return facts.clone();
        }
        // Roles are looked up for them, which may forget what was kept.
        let facts = Arc::new(self.new_facts());
        let kept = (self.variables.version, self.database.clone(), facts.clone());
        *self.facts.borrow_mut() = Some(kept);
        facts
    }

    /// VERSION(). MariaDB's `mysqlbinlog` reads no log of a server whose version begins with 8: it
    /// is told what MariaDB's own servers put before theirs.
    fn version(&self) -> String {
        let is_program =
            |(name, value): &(String, String)| name == "program_name" && value == "mysqlbinlog";
        let prefix = if self.attributes.iter().any(is_program) { "5.5.5-" } else { "" };
        format!("{prefix}{VERSION}")
    }

    fn new_facts(&self) -> SessionFacts {
        let variables = &self.variables;
        SessionFacts {
            connection_id: self.id.into(),
            user: self.user.as_str().into(),
            current_user: self
                .login
                .account
                .as_ref()
                .map(AccountName::plain)
                .unwrap_or_default()
                .into(),
            current_role: self.current_role(),
            database: self.database.as_deref().map(Arc::from),
            version: self.version().into(),
            sql_mode: variables.sql_mode,
            collation: variables.connection_collation,
            time_zone: variables.time_zone.clone(),
            div_precision_increment: variables.div_precision_increment,
            group_concat_max_len: variables.group_concat_max_len,
            max_allowed_packet: variables.max_allowed_packet,
            max_error_count: variables.max_error_count as usize,
            default_week_format: variables.default_week_format,
            block_encryption: variables.block_encryption,
            node: u64::from(self.id) << 16 | 0x0200_0000_0000,
        }
    }

    /// CURRENT_ROLE().
    fn current_role(&self) -> Arc<str> {
        let rights = self.rights();
        rights.map_or_else(|_| "NONE".into(), |rights| shown_roles(&rights.roles))
    }

    /// The context of a statement's evaluation.
    pub(crate) fn context(&mut self) -> EvalContext {
        let seed = self.prng.next_u64();
        let now = self.variables.timestamp.unwrap_or(self.statement_time);
        let mut context = EvalContext::new(self.facts(), now, seed);
        context.sysdate = self.statement_time;
        context.pauses = self.pauses.clone();
        context.user_variables = std::mem::take(&mut self.user_variables);
        context.last_insert_id = self.last_insert_id;
        context.row_count = self.row_count;
        context.found_rows = self.found_rows;
        context.query_attributes.clone_from(&self.query_attributes);
        context.large_bytes_max = self.memory.available();
        context
    }

    /// Takes back what evaluation has changed.
    pub(crate) fn absorb(&mut self, context: EvalContext) {
        self.user_variables = context.user_variables;
        if context.last_insert_id_set {
            self.last_insert_id = context.last_insert_id;
        }
        let kept = self.variables.max_error_count as usize;
        let listed = context.warnings.entries.len() as u64;
        for (level, error) in context.warnings.entries {
            self.diagnostics.push(level.into(), error, kept);
        }
        self.diagnostics.warning_count += context.warnings.count.saturating_sub(listed);
    }

    /// The type of a value that comes from outside: a parameter, a user variable.
    pub(crate) fn type_of(&self, value: &Datum) -> ResultType {
        let sql_type = match value {
            Datum::Null => return ResultType::null(),
            Datum::Int(_) => SqlType::big_int(),
            Datum::UInt(_) => SqlType::unsigned_big_int(),
            Datum::Double(_) => SqlType::double(),
            Datum::Decimal(v) => SqlType::decimal(v.precision(), v.scale()),
            Datum::Bytes(text) => SqlType {
                collation: self.variables.connection_collation,
                ..SqlType::text(text.len() as u32)
            },
            Datum::Date(_) => SqlType::new(TypeKind::Date, 10),
            Datum::DateTime(v) => SqlType {
                decimals: if v.micros == 0 { 0 } else { 6 },
                ..SqlType::new(TypeKind::DateTime, 19)
            },
            Datum::Time(_) => SqlType { decimals: 6, ..SqlType::new(TypeKind::Time, 10) },
            Datum::Json(_) => SqlType::new(TypeKind::Json, u32::MAX),
        };
        let mut result = ResultType::column(sql_type, true);
        result.coercibility = sql_expression::Coercibility::Coercible;
        result
    }

    /// The value of `@@name`.
    pub(crate) fn system_variable(
        &self,
        variable: &ast::SystemVariable,
    ) -> Result<(Datum, SqlType), SqlError> {
        variables::session::lookup(self, variable)
    }

    /// A context for expressions that neither read nor change what the session remembers.
    pub(crate) fn plain_context(&self) -> EvalContext {
        let now = self.variables.timestamp.unwrap_or(self.statement_time);
        EvalContext::new(self.facts(), now, 0)
    }
}

impl From<sql_expression::Level> for Level {
    fn from(level: sql_expression::Level) -> Self {
        match level {
            sql_expression::Level::Note => Self::Note,
            sql_expression::Level::Warning => Self::Warning,
            sql_expression::Level::Error => Self::Error,
        }
    }
}

/// A user variable with this value.
pub(crate) fn user_variable(value: Datum, collation: CollationId) -> UserVariable {
    UserVariable { value, collation }
}
