//! Which passwords are good enough: the rules of `validate_password`.
//!
//! MySQL has them in a component that is to be installed; here the variables are always there, and
//! `validate_password.policy` is OFF until an administrator says otherwise.
//!
//! # Owns
//! The rules.
//! # Not here
//! Files of words: `validate_password.dictionary_file` is not read.

use sql_expression::SqlError;

use super::AccountName;
use super::error;
use super::session::global;
use crate::session::Session;

/// The rules in force.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    level: Level,
    length: usize,
    mixed: usize,
    numbers: usize,
    special: usize,
    checks_name: bool,
}

/// How much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Off,
    Low,
    Medium,
}

impl Policy {
    /// Those of the server.
    pub(crate) fn of(session: &Session) -> Self {
        let number = |name: &str| {
            global(session, &format!("validate_password.{name}")).parse().unwrap_or_default()
        };
        let (mixed, numbers, special) =
            (number("mixed_case_count"), number("number_count"), number("special_char_count"));
        let level = match global(session, "validate_password.policy").as_str() {
            "OFF" => Level::Off,
            "LOW" => Level::Low,
            // STRONG asks for words that are in no dictionary: there is none.
            _ => Level::Medium,
        };
        let least: usize = number("length");
        let checks_name = global(session, "validate_password.check_user_name") == "ON";
        Self {
            level,
            length: least.max(numbers + special + 2 * mixed),
            mixed,
            numbers,
            special,
            checks_name,
        }
    }

    /// Refuses a password for an account that is not good enough.
    ///
    /// # Errors
    /// 1819.
    pub(crate) fn check(&self, password: &[u8], of: &AccountName) -> Result<(), SqlError> {
        let name = of.user.as_bytes();
        let is_name = self.checks_name
            && !name.is_empty()
            && (password == name || password.iter().rev().eq(name.iter()));
        match self.level {
            Level::Off => Ok(()),
            Level::Low if password.len() >= self.length && !is_name => Ok(()),
            Level::Medium if self.is_medium(password) && !is_name => Ok(()),
            Level::Low | Level::Medium => Err(error::weak_password()),
        }
    }

    fn is_medium(&self, password: &[u8]) -> bool {
        let count = |kind: fn(&u8) -> bool| password.iter().filter(|byte| kind(byte)).count();
        password.len() >= self.length
            && count(u8::is_ascii_uppercase) >= self.mixed
            && count(u8::is_ascii_lowercase) >= self.mixed
            && count(u8::is_ascii_digit) >= self.numbers
            && count(|byte| !byte.is_ascii_alphanumeric()) >= self.special
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_by_level() {
        let of = AccountName::new("somebody1", "%");
        let policy = |level| Policy {
            level,
            length: 8,
            mixed: 1,
            numbers: 1,
            special: 1,
            checks_name: true,
        };
        for (password, low, medium) in [
            ("short", false, false),
            ("longenough", true, false),
            ("LongEnough1!", true, true),
            ("longenough1!", true, false),
            ("LongEnough!", true, false),
            ("somebody1", false, false),
            ("1ydobemos", false, false),
        ] {
            let good = |level| policy(level).check(password.as_bytes(), &of).is_ok();
            assert_eq!((good(Level::Low), good(Level::Medium)), (low, medium), "{password}");
            assert!(good(Level::Off));
        }
    }
}
