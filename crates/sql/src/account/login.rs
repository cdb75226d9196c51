//! As whom a session has logged in, and what it may do and see.
//!
//! # Owns
//! [`Login`], which a session has, and [`Candidate`], whom a client may turn out to be.
//! # Not here
//! Logging in, and asking what is allowed (`account::session`).

use std::cell::RefCell;
use std::rc::Rc;

use model::ControlIndex;
use mysql_wire::auth::Account;

use super::AccountName;
use super::attempts::Lockout;
use super::rights::{Active, Rights};
use super::usage::{CountedConnection, Limits};
use crate::audit::AuditedConnection;

/// As whom a session has logged in.
#[derive(Debug, Default)]
pub(crate) struct Login {
    /// The account; none before the login.
    pub(crate) account: Option<AccountName>,
    /// Which roles it uses.
    pub(crate) active: Active,
    /// It is no client's: the cluster does by itself what it was told to do before.
    pub(crate) is_own: bool,
    /// The password has expired: nothing may be done but to change it.
    pub(crate) is_expired: bool,
    /// It counts for the account as long as it has it.
    pub(crate) connection: Option<CountedConnection>,
    /// Its end is told to the audit log.
    pub(crate) audited: Option<AuditedConnection>,
    /// What it may do, with the change of accounts that this was made by.
    pub(super) rights: RefCell<Option<(ControlIndex, Rc<Rights>)>>,
}

/// The account that a client is, if it proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) name: AccountName,
    /// What the client proves, and what holds beside it.
    pub(crate) account: Account,
    /// What failed logins lead to, if they are counted.
    pub(crate) lockout: Option<Lockout>,
    /// How much it may do.
    pub(crate) limits: Limits,
}

/// What a prepared statement was allowed by: the rights, the definitions, the default database.
pub(crate) type Allowed = (u64, ControlIndex, Option<String>);
