//! What a session tells the audit log.

use actor::Transport;
use sql_expression::SqlError;
use sql_parser::ast::Statement;

use super::event::{self, Connected, Event};
use super::{AuditFigures, Audited, AuditedConnection, filter, secret};
use crate::prepared::Prepared;
use crate::session::Session;
use crate::traits::Traits;

impl Session {
    /// A statement begins; none if there is no log, or it is not wanted.
    pub(crate) fn begin_audit(&self, traits: &Traits) -> Option<Audited> {
        let auditor = self.shared.audit.as_ref()?;
        let filter = auditor.filter(&self.shared.directory);
        let account = self.login.account.as_ref();
        (filter.wants_statement(traits) && filter.wants_account(account)).then_some(Audited(filter))
    }

    /// The statement has ended with this error, or none. It came as `shown`, unless another
    /// statement runs it.
    pub(crate) async fn audit(
        &self,
        audited: &Audited,
        prepared: &Prepared,
        shown: Option<&[u8]>,
        code: u16,
    ) {
        let (traits, kept) = (prepared.traits(), prepared.text().as_bytes());
        let (command, text) = match shown {
            Some(text) if kept.is_empty() => ("Query", text),
            _ => ("Execute", kept),
        };
        let statement = Some((prepared.statement(), text));
        self.tell_statement(audited, command, traits.counter, statement, traits, code).await;
    }

    /// A text was no statement: it is not shown, as nobody knows what in it is a password.
    pub(crate) async fn audit_nonsense(&self, error: &SqlError) {
        let traits = Traits::unknown();
        let Some(audited) = self.begin_audit(&traits) else { return };
        self.tell_statement(&audited, "Query", "error", None, &traits, error.code()).await;
    }

    async fn tell_statement(
        &self,
        Audited(filter): &Audited,
        command: &str,
        name: &str,
        statement: Option<(&Statement, &[u8])>,
        traits: &Traits,
        code: u16,
    ) {
        let Some(auditor) = &self.shared.audit else { return };
        let text = statement.map(|(_, text)| text).unwrap_or_default();
        if !filter.wants_database(self.database.as_deref(), text) {
            return;
        }
        let mode = self.variables.parser_mode();
        let query = statement.map(|(statement, text)| secret::hidden(statement, text, mode));
        let event = Event::Statement {
            who: self.who(),
            command,
            name,
            class: filter::class(traits),
            database: self.database.as_deref().unwrap_or_default(),
            query: query.unwrap_or_default(),
            code,
        };
        auditor.tell(&self.kernel, &event, filter.kept).await;
    }

    /// Whoever the session is.
    fn who(&self) -> event::Who<'_> {
        let (user, host) = self.user.rsplit_once('@').unwrap_or((&self.user, ""));
        event::Who { connection: self.id, account: self.login.account.as_ref(), user, host }
    }

    /// The client has logged in: what tells of its end.
    pub(crate) async fn audit_login(&self, transport: &Transport) -> Option<AuditedConnection> {
        let auditor = self.shared.audit.as_ref()?;
        let filter = auditor.filter(&self.shared.directory);
        if !filter.connections || !filter.wants_account(self.login.account.as_ref()) {
            return None;
        }
        let kind = self.connection_kind(transport);
        let database = self.database.as_deref().unwrap_or_default();
        let (who, attributes) = (self.who(), &self.attributes[..]);
        let connected = Connected { kind, code: 0, database, attributes };
        let event = Event::Connection { who, what: "connect", connected };
        auditor.tell(&self.kernel, &event, filter.kept).await;
        let connected = Connected { kind, code: 0, database: "", attributes: &[] };
        let end = Event::Connection { who: self.who(), what: "disconnect", connected }.to_string();
        Some(AuditedConnection { log: auditor.log.clone(), end })
    }

    /// The client was refused, whatever accounts are wanted.
    pub(crate) async fn audit_refusal(&self, transport: &Transport, code: u16) {
        let Some(auditor) = &self.shared.audit else { return };
        let filter = auditor.filter(&self.shared.directory);
        if !filter.connections {
            return;
        }
        let kind = self.connection_kind(transport);
        let connected = Connected { kind, code, database: "", attributes: &[] };
        let event = Event::Connection { who: self.who(), what: "connect", connected };
        auditor.tell(&self.kernel, &event, filter.kept).await;
    }

    fn connection_kind(&self, transport: &Transport) -> &'static str {
        match transport {
            _ if self.tls.is_some() => "ssl",
            Transport::Tcp { .. } => "tcp/ip",
            Transport::Unix { .. } => "socket",
        }
    }
}

/// Status variables of the log.
pub(crate) fn status(session: &Session) -> Vec<(&'static str, String)> {
    let figures = session.shared.audit.as_ref().map(|auditor| auditor.log.figures());
    let AuditFigures { written, lost, current_size, total_size } = figures.unwrap_or_default();
    vec![
        ("Audit_log_current_size", current_size.to_string()),
        ("Audit_log_events", (written + lost).to_string()),
        ("Audit_log_events_lost", lost.to_string()),
        ("Audit_log_events_written", written.to_string()),
        ("Audit_log_total_size", total_size.to_string()),
    ]
}
