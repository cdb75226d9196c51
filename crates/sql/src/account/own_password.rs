//! What the host gives for passwords that the cluster makes by itself.
//!
//! # Owns
//! [`PasswordFile`], the host's side; [`OwnPassword`], how and when there is to be such a password.
//! # Not here
//! Making it (`first`).

use std::fmt;
use std::sync::Arc;

/// Where the host keeps a password that was made here, for an administrator to read it.
pub trait PasswordFile: fmt::Debug + Send + Sync {
    /// The password of an earlier change that may have been made or not.
    fn pending(&self) -> Option<String>;

    /// The password that an administrator was shown last, as long as the file is there.
    fn published(&self) -> Option<String>;

    /// Keeps a password, durably, that `root` may have from now on.
    ///
    /// # Errors
    /// Why not; the account is not changed then.
    fn keep(&self, password: &str) -> Result<(), String>;

    /// `root` has the password that was kept: shows it to the administrator.
    ///
    /// # Errors
    /// Why not; it is tried again.
    fn publish(&self) -> Result<(), String>;

    /// `root` does not have the password that was kept: forgets it.
    fn discard(&self);

    /// Tells the administrator what is in the way.
    fn complain(&self, why: &str);

    /// Nothing is left to be done: whoever waited for the password goes on.
    fn settle(&self);
}

/// When `root` is given a password by the cluster.
#[derive(Clone, Debug)]
pub struct OwnPassword {
    /// Where it is kept.
    pub file: Arc<dyn PasswordFile>,
    /// Also when accounts have been changed: it was forgotten.
    pub renews: bool,
    /// Bits that nobody can foretell; none inside if the system has none.
    pub entropy: fn() -> Option<u64>,
}
