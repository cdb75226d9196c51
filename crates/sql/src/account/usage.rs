//! What accounts may do in an hour, and how often they may be connected: MAX_QUERIES_PER_HOUR and
//! its kin, `max_user_connections`.
//!
//! # Owns
//! [`Usage`], what each account has done at this process.
//! # Guarantees
//! A connection counts from its login to its end, whoever set a limit when. An hour begins with the
//! first use that is counted in it.
//! # Not here
//! Other SQL nodes: each counts for itself, as each server of MySQL does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql_expression::SqlError;

use super::{AccountName, error};

/// Microseconds of an hour.
const HOUR: i64 = 3_600_000_000;

/// What an account may do; 0 for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Statements in an hour.
    pub(crate) queries: u64,
    /// Statements that change something, in an hour.
    pub(crate) updates: u64,
    /// Logins in an hour.
    pub(crate) logins: u64,
    /// Connections at a time.
    pub(crate) connections: u64,
}

impl Limits {
    /// Of an account's record.
    pub(crate) fn of([queries, updates, logins, connections]: [u64; 4]) -> Self {
        Self { queries, updates, logins, connections }
    }

    /// Whether statements are counted.
    pub(crate) fn concern_statements(&self) -> bool {
        self.queries > 0 || self.updates > 0
    }
}

/// What each account has done, shared by the workers of a process.
#[derive(Clone, Debug, Default)]
pub struct Usage(Arc<Mutex<BTreeMap<AccountName, Uses>>>);

/// What an account has done.
#[derive(Debug, Default)]
struct Uses {
    /// When the hour began, in microseconds since 1970; none while nothing was counted.
    since: Option<i64>,
    queries: u64,
    updates: u64,
    logins: u64,
    /// Connections now.
    connections: u64,
}

impl Uses {
    /// Forgets what was done in an hour that is over, also by a clock that was set back.
    fn begin(&mut self, now: i64) {
        let is_over = self.since.is_none_or(|since| !(0..HOUR).contains(&(now - since)));
        if is_over {
            *self = Self { since: Some(now), connections: self.connections, ..Self::default() };
        }
    }
}

/// A connection that counts for its account until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    of: AccountName,
    usage: Usage,
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut all = self.usage.locked();
        let Some(uses) = all.get_mut(&self.of) else { return };
        uses.connections = uses.connections.saturating_sub(1);
        if uses.connections == 0 && uses.since.is_none() {
            all.remove(&self.of);
        }
    }
}

impl Usage {
    fn locked(&self) -> MutexGuard<'_, BTreeMap<AccountName, Uses>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a login, `now` microseconds after 1970. An account without a limit of its own may be
    /// connected `most` times; 0 for no limit.
    ///
    /// # Errors
    /// 1226, and 1203 where the limit is that of all accounts.
    pub(crate) fn connect(
        &self,
        of: &AccountName,
        limits: &Limits,
        most: u64,
        now: i64,
    ) -> Result<CountedConnection, SqlError> {
        let mut all = self.locked();
        let uses = all.entry(of.clone()).or_default();
        if limits.connections > 0 && uses.connections >= limits.connections {
            return Err(error::limit_reached(of, "max_user_connections", limits.connections));
        }
        if limits.connections == 0 && most > 0 && uses.connections >= most {
            return Err(error::too_many_connections(of));
        }
        if limits.logins > 0 {
            uses.begin(now);
            if uses.logins >= limits.logins {
                return Err(error::limit_reached(of, "max_connections_per_hour", limits.logins));
            }
            uses.logins += 1;
        }
        uses.connections += 1;
        Ok(CountedConnection { of: of.clone(), usage: self.clone() })
    }

    /// Counts a statement, `now` microseconds after 1970; not twice if it is run by another one.
    ///
    /// # Errors
    /// 1226.
    pub(crate) fn execute(
        &self,
        of: &AccountName,
        limits: &Limits,
        is_outer: bool,
        changes: bool,
        now: i64,
    ) -> Result<(), SqlError> {
        let mut all = self.locked();
        let uses = all.entry(of.clone()).or_default();
        uses.begin(now);
        if limits.queries > 0 && is_outer {
            if uses.queries >= limits.queries {
                return Err(error::limit_reached(of, "max_questions", limits.queries));
            }
            uses.queries += 1;
        }
        if limits.updates > 0 && changes {
            if uses.updates >= limits.updates {
                return Err(error::limit_reached(of, "max_updates", limits.updates));
            }
            uses.updates += 1;
        }
        Ok(())
    }

    /// Forgets what was done: FLUSH USER_RESOURCES. Connections are still there.
    pub(crate) fn forget(&self) {
        let mut all = self.locked();
        all.retain(|_, uses| uses.connections > 0);
        for uses in all.values_mut() {
            *uses = Uses { connections: uses.connections, ..Uses::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, SqlError>) -> u16 {
        result.err().map_or(0, |error| error.code())
    }

    #[test]
    fn so_much_in_an_hour() {
        let (usage, who) = (Usage::default(), AccountName::new("u", "%"));
        let limits = Limits { queries: 3, updates: 1, logins: 0, connections: 0 };
        let run = |changes, now| code(usage.execute(&who, &limits, true, changes, now));
        assert_eq!([run(false, 0), run(true, 1), run(true, 2), run(false, 3)], [0, 0, 1226, 1226]);
        let other = AccountName::new("u", "localhost");
        assert_eq!(code(usage.execute(&other, &limits, true, true, 3)), 0);
        // What a statement runs is part of it.
        assert_eq!(code(usage.execute(&who, &limits, false, false, 3)), 0);
        assert_eq!([run(true, HOUR - 1), run(true, HOUR), run(true, HOUR + 1)], [1226, 0, 1226]);
        usage.forget();
        assert_eq!(run(true, HOUR + 2), 0);
        // A clock that was set back does not make an hour longer.
        assert_eq!(run(true, 5), 0);
    }

    #[test]
    fn so_many_connections_at_a_time_and_logins_in_an_hour() {
        let (usage, who) = (Usage::default(), AccountName::new("u", "%"));
        let none = Limits::default();
        let first = usage.connect(&who, &none, 2, 0).unwrap();
        let second = usage.connect(&who, &none, 2, 0).unwrap();
        assert_eq!(code(usage.connect(&who, &none, 2, 0)), 1203);
        let own = Limits { connections: 3, ..none };
        let third = usage.connect(&who, &own, 2, 0).unwrap();
        assert_eq!(code(usage.connect(&who, &own, 2, 0)), 1226);
        usage.forget();
        assert_eq!(code(usage.connect(&who, &own, 2, 0)), 1226, "they are still there");
        drop((first, second, third));
        assert!(usage.locked().is_empty());
        let hourly = Limits { logins: 1, ..none };
        drop(usage.connect(&who, &hourly, 0, 7).unwrap());
        assert_eq!(code(usage.connect(&who, &hourly, 0, 8)), 1226);
        assert_eq!(code(usage.connect(&who, &hourly, 0, 7 + HOUR)), 0);
    }
}
