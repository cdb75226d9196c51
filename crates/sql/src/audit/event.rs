//! What is in an event of the audit log: the members of MySQL's JSON format, one object a line.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

use crate::account::AccountName;

/// Bytes of a statement's text that are shown at most.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// Who does something.
pub(super) struct Who<'a> {
    /// CONNECTION_ID().
    pub(super) connection: u32,
    /// The account it has; none if it has not logged in.
    pub(super) account: Option<&'a AccountName>,
    /// What it calls itself, and where it comes from.
    pub(super) user: &'a str,
    pub(super) host: &'a str,
}

/// What is told of a connection.
pub(super) struct Connected<'a> {
    /// `ssl`, `tcp/ip` or `socket`.
    pub(super) kind: &'static str,
    /// The number of the error by which it was refused; 0 if it was not.
    pub(super) code: u16,
    pub(super) database: &'a str,
    /// What the client says of itself.
    pub(super) attributes: &'a [(String, String)],
}

/// Something that is told.
pub(super) enum Event<'a> {
    /// A connection begins, is refused, or ends.
    Connection { who: Who<'a>, what: &'static str, connected: Connected<'a> },
    /// A statement has ended.
    Statement {
        who: Who<'a>,
        command: &'a str,
        /// The name it is counted under.
        name: &'a str,
        class: &'static str,
        database: &'a str,
        query: Cow<'a, str>,
        /// The number of the error it ended with; 0 if it succeeded.
        code: u16,
    },
}

/// The members of an object, in their order.
#[derive(Default)]
struct Members(String);

impl Members {
    fn add(mut self, name: &str, value: impl Into<Value>) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(&value.into().to_string());
        self
    }

    fn object(mut self, name: &str, members: Members) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&format!("{}:{{{}}}", Value::from(name), members.0));
        self
    }

    fn who(self, who: &Who<'_>) -> Self {
        let (user, host) =
            who.account.map_or(("", ""), |account| (account.user.as_str(), account.host.as_str()));
        self.add("connection_id", who.connection)
            .object("account", Members::default().add("user", user).add("host", host))
            .object("login", Members::default().add("user", who.user).add("host", who.host))
    }
}

/// The members of the event's object, without braces around them.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members = match self {
            Self::Connection { who, what, connected } => {
                let mut data = Members::default()
                    .add("connection_type", connected.kind)
                    .add("status", connected.code);
                if !connected.database.is_empty() {
                    data = data.add("db", connected.database);
                }
                if !connected.attributes.is_empty() {
                    let attributes = connected.attributes.iter();
                    let attributes: Map<String, Value> = attributes
                        .map(|(name, value)| (name.clone(), value.as_str().into()))
                        .collect();
                    data = data.add("connection_attributes", attributes);
                }
                let members = Members::default().add("class", "connection").add("event", *what);
                members.who(who).object("connection_data", data)
            }
            Self::Statement { who, command, name, class, database, query, code } => {
                let mut data = Members::default()
                    .add("command", *command)
                    .add("sql_command", *name)
                    .add("statement_class", *class)
                    .add("db", *database)
                    .add("query", &**query);
                if query.len() >= TEXT_MAX {
                    data = data.add("query_is_cut", true);
                }
                let data = data.add("status", *code);
                let members = Members::default().add("class", "general").add("event", "status");
                members.who(who).object("general_data", data)
            }
        };
        f.write_str(&members.0)
    }
}
