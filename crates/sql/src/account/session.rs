//! What a session does with its account: logs in, and asks what it may do and see.
//!
//! # Owns
//! The session's [`Rights`], read anew when accounts have changed; what logins and statements count
//! for an account; the server's rules about roles.
//! # Not here
//! What statements need (`authorize`); proving who one is (`connection::login`).

use std::rc::Rc;

use sql_expression::SqlError;
use sql_parser::ast::Statement;

use super::login::{Candidate, Login};
use super::privilege::Privileges as P;
use super::rights::{Active, Rights, RoleRules};
use super::usage::{CountedConnection, Limits};
use super::{AccountName, error};
use crate::admission::ClientHost;
use crate::session::Session;
use crate::traits::{Traits, Writes};
use crate::variables;

impl Session {
    /// The session is the cluster's own, which may do everything. Its account is `root`, so that
    /// what it makes has an owner.
    pub(crate) fn become_own(&mut self) {
        let account = Some(AccountName::root());
        self.login = Login { account, is_own: true, ..Login::default() };
        *self.facts.borrow_mut() = None;
    }

    /// The session goes on as another account, with its default roles.
    pub(crate) fn become_account(&mut self, account: AccountName) {
        self.login = Login { account: Some(account), ..Login::default() };
        *self.facts.borrow_mut() = None;
    }

    /// The account that a client is, who calls itself `user` and comes from `from`: what logging in
    /// needs to know of it. By its name the session becomes it ([`Session::become_account`]).
    pub(crate) fn login_account(
        &self,
        user: &str,
        from: &ClientHost,
    ) -> Result<Option<Candidate>, SqlError> {
        let found = self.shared.accounts.book(&self.kernel).who(user, from)?;
        let lifetime = global(self, "default_password_lifetime").parse().unwrap_or_default();
        let now = self.statement_time / 1_000_000;
        Ok(found.map(|(name, record)| {
            let account = record.login(&name, now, lifetime);
            let limits = Limits::of(record.limits);
            Candidate { name, account, lockout: record.lockout(), limits }
        }))
    }

    /// Counts an attempt to log in to an account.
    ///
    /// # Errors
    /// 3955 while too many have failed, also when the password is right.
    pub(crate) fn count_attempt(
        &self,
        of: &Candidate,
        user: &str,
        host: &str,
        proven: bool,
    ) -> Result<(), SqlError> {
        let Some(lockout) = &of.lockout else { return Ok(()) };
        let now = self.statement_time / 1_000_000;
        let counted = self.shared.admission.attempts.count(&of.name, lockout, proven, now);
        counted.map_err(|blocked| error::blocked(user, host, lockout, &blocked))
    }

    /// Counts a login to an account, which has proven itself.
    ///
    /// # Errors
    /// 1203 and 1226 where the account may not be connected once more.
    pub(crate) fn count_connection(&self, of: &Candidate) -> Result<CountedConnection, SqlError> {
        let most = global(self, "max_user_connections").parse().unwrap_or_default();
        self.shared.admission.usage.connect(&of.name, &of.limits, most, self.statement_time)
    }

    /// Counts a statement for the account, where that may run so many. It is an outer one unless
    /// another statement runs it.
    ///
    /// # Errors
    /// 1226 if there were as many.
    pub(crate) fn count_use(&self, traits: &Traits, is_outer: bool) -> Result<(), SqlError> {
        // Whoever has no account is refused for that.
        let Ok(rights) = self.rights() else { return Ok(()) };
        let limits = rights.limits;
        if !limits.concern_statements() {
            return Ok(());
        }
        let changes = traits.writes != Writes::Nothing;
        let (usage, now) = (&self.shared.admission.usage, self.statement_time);
        usage.execute(&rights.account, &limits, is_outer, changes, now)
    }

    /// The session uses other roles from now on.
    pub(crate) fn activate_roles(&mut self, active: Active) {
        self.login.active = active;
        *self.login.rights.borrow_mut() = None;
        *self.facts.borrow_mut() = None;
    }

    /// The account the session has.
    ///
    /// # Errors
    /// 1045 before the login.
    pub(crate) fn account(&self) -> Result<&AccountName, SqlError> {
        let nobody = || SqlError::of::<1045>(&[&"", &"", &"NO"]);
        self.login.account.as_ref().ok_or_else(nobody)
    }

    /// What the session may do, by the accounts of the state that the worker has reached.
    ///
    /// # Errors
    /// 1045 if the account is gone.
    pub(crate) fn rights(&self) -> Result<Rc<Rights>, SqlError> {
        let changed = self.kernel.accounts_changed();
        let mut kept = self.login.rights.borrow_mut();
        if let Some((of, rights)) = kept.as_ref()
            && *of == changed
        {
            return Ok(rights.clone());
        }
        if self.login.is_own {
            let rights = Rc::new(Rights::complete());
            *kept = Some((changed, rights.clone()));
            return Ok(rights);
        }
        let account = self.account()?;
        let book = self.shared.accounts.book(&self.kernel);
        let rights = Rights::of(&book, account, &self.login.active, &role_rules(self))?;
        let rights = Rc::new(rights.ok_or_else(|| error::denied(account))?);
        *kept = Some((changed, rights.clone()));
        // CURRENT_ROLE() may say something else from now on.
        *self.facts.borrow_mut() = None;
        Ok(rights)
    }
}

/// What the session may see.
impl Session {
    /// Whether a database shows.
    pub(crate) fn sees_database(&self, name: &str) -> bool {
        let is_public = matches!(name, "information_schema" | "performance_schema");
        is_public || self.rights().is_ok_and(|rights| rights.sees_database(name))
    }

    /// Whether a table shows.
    pub(crate) fn sees_table(&self, database: &str, table: &str) -> bool {
        let is_public = database == "information_schema";
        is_public || self.rights().is_ok_and(|rights| rights.sees_table(database, table))
    }

    /// Whether the query of a view shows.
    pub(crate) fn may_show_view(&self, database: &str, view: &str) -> bool {
        self.rights().is_ok_and(|rights| rights.of_table(database, view).has(P::SHOW_VIEW))
    }

    /// What of a column is allowed, as information_schema lists it; none if it does not show.
    pub(crate) fn column_privileges(
        &self,
        database: &str,
        table: &str,
        column: &str,
    ) -> Option<String> {
        let rights = self.rights().ok()?;
        let of_column = rights.of_column(database, table, column);
        let allowed = (rights.of_table(database, table) | of_column) & P::OF_COLUMN;
        let names: Vec<String> =
            allowed.each().map(|known| known.name.to_ascii_lowercase()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

/// The server's rules about roles now.
pub(crate) fn role_rules(session: &Session) -> RoleRules {
    let is_on = |name: &str| global(session, name).eq_ignore_ascii_case("ON");
    RoleRules {
        mandatory: role_list(&global(session, "mandatory_roles")),
        all_on_login: is_on("activate_all_roles_on_login"),
        partial_revokes: is_on("partial_revokes"),
    }
}

/// The server's value of a variable, as text.
pub(crate) fn global(session: &Session, name: &str) -> String {
    let variable = variables::registry::find(name);
    variable.and_then(|one| variables::session::shown_text(session, one, true)).unwrap_or_default()
}

/// The roles of `mandatory_roles`: names separated by commas, in quotes or not.
fn role_list(text: &str) -> Vec<AccountName> {
    let parsed =
        sql_parser::parse(format!("DROP ROLE {text}").as_bytes(), sql_parser::SqlMode::default());
    let Ok(Statement::DropRole(drop)) = parsed else { return Vec::new() };
    drop.accounts.iter().filter_map(AccountName::stated).collect()
}
