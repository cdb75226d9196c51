//! Statements that change accounts: made from the accounts of a state, and made again when others
//! have changed them meanwhile.
//!
//! # Owns
//! [`Draft`], the accounts as a statement leaves them; what a statement waits for before it
//! returns.
//! # Guarantees
//! A statement changes all accounts it names, or none. When it returns every data node has reached
//! the change, and nobody is allowed what it takes away.
//! # Not here
//! What each statement does (`user`, `role`, `grant`).

mod grant;
mod role;
mod user;

use std::collections::BTreeMap;
use std::rc::Rc;

use model::{ErrorCode, NodeId};
use sql_expression::SqlError;
use sql_parser::ast::{self, Statement};
use sqltype::{Datum, SqlType};
use stdx::Prng;

use crate::account::book::Book;
use crate::account::privilege::Dynamic;
use crate::account::record::Record;
use crate::account::rights::{Rights, RoleRules};
use crate::account::{AccountName, error, fresh};
use crate::kernel::Failure;
use crate::result::{Outcome, ResultColumn, ResultWriter};
use crate::session::{Level, Session};

/// How often a statement is made anew because others have changed accounts.
const ATTEMPTS_MAX: u32 = 50;

/// The accounts as a statement leaves them.
struct Draft<'a> {
    pub(super) session: &'a Session,
    pub(super) book: Book<'a>,
    /// Of the session.
    pub(super) rights: Rc<Rights>,
    pub(super) rules: RoleRules,
    changes: BTreeMap<AccountName, Option<Record>>,
    /// Something that was allowed is not any more.
    pub(super) takes: bool,
    /// For SHOW WARNINGS.
    pub(super) notes: Vec<(Level, SqlError)>,
    /// Passwords that were made up.
    pub(super) random: Vec<(AccountName, String)>,
    /// The session's own password was changed.
    pub(super) renewed: bool,
}

/// What remains to be done when the accounts are changed.
struct Done {
    takes: bool,
    notes: Vec<(Level, SqlError)>,
    random: Vec<(AccountName, String)>,
    renewed: bool,
    command: Option<model::SchemaChange>,
}

/// Runs a statement about accounts.
pub(crate) async fn run(
    session: &mut Session,
    statement: &Statement,
    out: &mut ResultWriter,
) -> Result<Outcome, SqlError> {
    if let Statement::SetRole(choice) = statement {
        return role::set(session, choice);
    }
    let mut attempts = 0;
    let done = loop {
        let mut prng = generator(session)?;
        let mut done = draft(session, statement, &mut prng)?;
        let Some(command) = done.command.take() else { break done };
        match session.kernel.beside().change_schema(command).await {
            Ok(_) => {
                let silent = wait(session, done.takes).await?;
                done.notes.extend(unheard(&silent));
                break done;
            }
            Err(Failure::Refused(refusal))
                if refusal.code == ErrorCode::SchemaChanged && attempts < ATTEMPTS_MAX =>
            {
                attempts += 1;
                session.catch_up().await;
            }
            Err(failure) => return Err(failure.into()),
        }
    };
    let kept = session.variables.max_error_count as usize;
    for (level, note) in done.notes {
        match level {
            Level::Note => session.note(note),
            _ => session.diagnostics.push(level, note, kept),
        }
    }
    if done.renewed {
        session.login.is_expired = false;
    }
    if done.random.is_empty() { Ok(Outcome::default()) } else { Ok(shown(&done.random, out)) }
}

/// Where salts and random passwords come from.
fn generator(session: &mut Session) -> Result<Prng, SqlError> {
    let seed = match session.shared.admission.entropy {
        Some(entropy) => entropy(),
        None => Some(session.prng.next_u64()),
    };
    seed.map(Prng::new).ok_or_else(|| SqlError::internal("the system gives no random bytes"))
}

async fn wait(session: &Session, takes: bool) -> Result<Vec<NodeId>, SqlError> {
    Ok(if takes {
        fresh::outlast(&session.kernel).await?
    } else {
        fresh::spread(&session.kernel).await?
    })
}

/// The warning about data nodes that have not said that they know the change.
fn unheard(silent: &[NodeId]) -> Option<(Level, SqlError)> {
    if silent.is_empty() {
        return None;
    }
    let nodes: Vec<String> = silent.iter().map(ToString::to_string).collect();
    let text = format!(
        "The accounts are changed, but data node(s) {} have not confirmed it: SQL nodes that ask \
         only them may not know it yet",
        nodes.join(", ")
    );
    Some((Level::Warning, SqlError::new(1105, "HY000", text)))
}

/// Makes the change from the accounts as they are.
fn draft(session: &Session, statement: &Statement, prng: &mut Prng) -> Result<Done, SqlError> {
    let mut draft = Draft {
        session,
        book: session.shared.accounts.book(&session.kernel),
        rights: session.rights()?,
        rules: crate::account::session::role_rules(session),
        changes: BTreeMap::new(),
        takes: false,
        notes: Vec::new(),
        random: Vec::new(),
        renewed: false,
    };
    match statement {
        Statement::CreateUser(create) => user::create(&mut draft, create, prng)?,
        Statement::AlterUser(alter) => user::alter(&mut draft, alter, prng)?,
        Statement::DropUser(drop) => user::drop(&mut draft, drop, "DROP USER")?,
        Statement::RenameUser(names) => user::rename(&mut draft, names)?,
        Statement::SetPassword(set) => user::set_password(&mut draft, set, prng)?,
        Statement::CreateRole(create) => role::create(&mut draft, create)?,
        Statement::DropRole(drop) => user::drop(&mut draft, drop, "DROP ROLE")?,
        Statement::Grant(grant) => grant::grant(&mut draft, grant)?,
        Statement::Revoke(revoke) => grant::revoke(&mut draft, revoke)?,
        Statement::SetDefaultRole(set) => role::set_default(&mut draft, set)?,
        _ => return Err(SqlError::internal("no statement about accounts")),
    }
    let command = (!draft.changes.is_empty()).then(|| draft.book.command(draft.changes));
    let Draft { takes, notes, random, renewed, .. } = draft;
    Ok(Done { takes, notes, random, renewed, command })
}

/// Passwords that were made up, as the only ones who will ever see them are shown them.
fn shown(random: &[(AccountName, String)], out: &mut ResultWriter) -> Outcome {
    let column = |name| ResultColumn::new(name, SqlType::text(255));
    let factor = ResultColumn::new("auth_factor", SqlType::big_int());
    out.columns(&[column("user"), column("host"), column("generated password"), factor]);
    for (account, password) in random {
        let texts = [&account.user, &account.host, password];
        let mut row: Vec<Datum> = texts.map(|text| Datum::text(text)).to_vec();
        row.push(Datum::Int(1));
        out.row(&row);
    }
    Outcome::Rows
}

impl Draft<'_> {
    /// The account of the session.
    fn who(&self) -> &AccountName {
        &self.rights.account
    }

    /// The account that a statement names.
    fn named(&self, account: &ast::Account) -> AccountName {
        AccountName::stated(account).unwrap_or_else(|| self.who().clone())
    }

    /// Adds a note about each account that is there already, or is not, where a statement goes on
    /// without them.
    ///
    /// # Errors
    /// 1396 with all of them where it does not.
    fn leave_out(
        &mut self,
        goes_on: bool,
        accounts: &[AccountName],
        operation: &str,
        note: fn(&AccountName) -> SqlError,
    ) -> Result<(), SqlError> {
        if !goes_on && !accounts.is_empty() {
            return Err(error::failed(operation, accounts));
        }
        accounts.iter().for_each(|name| self.note(note(name)));
        Ok(())
    }

    /// The account as the statement has left it so far.
    fn get(&self, name: &AccountName) -> Result<Option<Record>, SqlError> {
        match self.changes.get(name) {
            Some(changed) => Ok(changed.clone()),
            None => Ok(self.book.find(name)?.map(|record| (*record).clone())),
        }
    }

    /// Whether there is such an account.
    fn has(&self, name: &AccountName) -> bool {
        self.changes.get(name).map_or_else(|| self.book.has(name), Option::is_some)
    }

    /// The account is this from now on.
    fn put(&mut self, name: AccountName, record: Record) {
        self.changes.insert(name, Some(record));
    }

    /// The account is gone.
    fn remove(&mut self, name: AccountName) {
        self.takes = true;
        self.changes.insert(name, None);
    }

    /// All names that there are.
    fn names(&self) -> Vec<AccountName> {
        let mut names = self.book.names();
        names.extend(self.changes.keys().cloned());
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.has(name));
        names
    }

    /// Adds to SHOW WARNINGS.
    fn note(&mut self, note: SqlError) {
        self.notes.push((Level::Note, note));
    }

    /// Adds to SHOW WARNINGS.
    fn warn(&mut self, warning: SqlError) {
        self.notes.push((Level::Warning, warning));
    }

    /// Refuses who may not touch an account that has SYSTEM_USER.
    ///
    /// # Errors
    /// 1227.
    fn may_touch(&self, name: &AccountName) -> Result<(), SqlError> {
        let is_system = match self.get(name)? {
            Some(record) => record.has_dynamic(Dynamic::SYSTEM_USER.name()),
            None => false,
        };
        let may = self.rights.has_dynamic(Dynamic::SYSTEM_USER) || name == self.who();
        if is_system && !may { Err(error::needs("SYSTEM_USER")) } else { Ok(()) }
    }

    /// Seconds since 1970.
    fn now(&self) -> i64 {
        self.session.statement_time / 1_000_000
    }
}
