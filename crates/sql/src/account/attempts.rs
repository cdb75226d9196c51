//! Failed logins: FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME.
//!
//! # Owns
//! [`Attempts`], the failed logins of each account in a row, as one process has seen them.
//! # Guarantees
//! An account that is blocked is blocked for the right password too. ALTER USER with ACCOUNT
//! UNLOCK, or with another limit, forgives at every SQL node, as the account itself says so.
//! # Not here
//! Whether a login has failed (`connection::login`). Processes do not tell each other: each counts
//! for itself, as each server of MySQL does, and begins anew when it starts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::AccountName;

/// Seconds of a day.
const DAY: i64 = 86_400;

/// What failed logins in a row lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lockout {
    /// So many block the account.
    pub(crate) attempts: u64,
    /// For so many days; none until somebody unlocks it.
    pub(crate) days: Option<u64>,
    /// When failed logins were forgiven last, in microseconds since 1970.
    pub(crate) forgiven: i64,
}

/// An account is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// Days that are left, each begun one as a whole; none until somebody unlocks it.
    pub(crate) days_left: Option<u64>,
}

/// Failed logins in a row, shared by the workers of a process.
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<Mutex<BTreeMap<AccountName, Failures>>>);

#[derive(Debug)]
struct Failures {
    /// What held when they were counted.
    under: Lockout,
    count: u64,
    /// When the last one was, in seconds since 1970.
    last: i64,
}

impl Failures {
    /// Whether there are too many; if so, until when.
    fn blocked_until(&self) -> Option<Option<i64>> {
        let span = self.under.days.map(|days| i64::try_from(days).unwrap_or(i64::MAX));
        let end = span.map(|days| self.last.saturating_add(days.saturating_mul(DAY)));
        (self.count >= self.under.attempts).then_some(end)
    }
}

impl Attempts {
    /// Counts an attempt to log in, `now` seconds after 1970.
    ///
    /// # Errors
    /// The account is blocked, whether the password was right or not.
    pub(crate) fn count(
        &self,
        account: &AccountName,
        lockout: &Lockout,
        proven: bool,
        now: i64,
    ) -> Result<(), Blocked> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |failures: &Failures| {
            failures.under != *lockout
                || matches!(failures.blocked_until(), Some(Some(end)) if end <= now)
        };
        if all.get(account).is_some_and(is_over) {
            all.remove(account);
        }
        let was_blocked = all.get(account).is_some_and(|one| one.blocked_until().is_some());
        if proven && !was_blocked {
            all.remove(account);
            return Ok(());
        }
        let none = || Failures { under: lockout.clone(), count: 0, last: now };
        let failures = all.entry(account.clone()).or_insert_with(none);
        if !was_blocked {
            (failures.count, failures.last) = (failures.count + 1, now);
        }
        let Some(until) = failures.blocked_until() else { return Ok(()) };
        let days_left = until.map(|end| u64::try_from(end - now).unwrap_or(0).div_ceil(DAY as u64));
        Err(Blocked { days_left })
    }

    /// Forgives all: FLUSH PRIVILEGES.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_row_block_for_so_many_days() {
        let all = Attempts::default();
        let (one, other) = (AccountName::new("u", "%"), AccountName::new("u", "localhost"));
        let lockout = Lockout { attempts: 3, days: Some(2), forgiven: 0 };
        let try_at = |now, proven| all.count(&one, &lockout, proven, now);
        let blocked = |days| Err(Blocked { days_left: Some(days) });
        // A right one between them begins the row anew.
        for proven in [false, false, true, false, false] {
            assert_eq!(try_at(0, proven), Ok(()));
        }
        assert_eq!(try_at(10, false), blocked(2));
        assert_eq!(all.count(&other, &lockout, false, 10), Ok(()), "another account");
        // Neither the right password nor more attempts change when it ends.
        assert_eq!(try_at(20, true), blocked(2));
        assert_eq!(try_at(10 + DAY, false), blocked(1));
        assert_eq!(try_at(9 + 2 * DAY, true), blocked(1));
        assert_eq!(try_at(10 + 2 * DAY, false), Ok(()));
        assert_eq!(try_at(10 + 2 * DAY, true), Ok(()));
    }

    #[test]
    fn who_is_forgiven_begins_anew() {
        let (all, account) = (Attempts::default(), AccountName::new("u", "%"));
        let before = Lockout { attempts: 1, days: None, forgiven: 1 };
        let after = Lockout { forgiven: 2, ..before.clone() };
        assert_eq!(all.count(&account, &before, false, 0), Err(Blocked { days_left: None }));
        let late = 10_000 * DAY;
        assert_eq!(all.count(&account, &before, true, late), Err(Blocked { days_left: None }));
        assert_eq!(all.count(&account, &after, true, late), Ok(()));
        assert!(all.count(&account, &after, false, late).is_err());
        all.clear();
        assert_eq!(all.count(&account, &after, true, late), Ok(()));
    }
}
