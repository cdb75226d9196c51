//! Authentication: what accounts keep of passwords, what clients prove, who meets an account's
//! requirements.
//!
//! # Owns
//! [`Account`], what logging in needs to know of an account; the plugins `mysql_native_password`
//! ([`native`]), `caching_sha2_password` ([`sha2`]) and `auth_socket`; [`VerifierCache`].
//! # Guarantees
//! Comparisons of secrets take a time that does not depend on where they differ.
//! # Not here
//! The order of packets (the SQL node's login), where accounts are kept, the RSA key and TLS.

mod account;
mod cache;
pub mod native;
pub mod sha2;
mod sha256_crypt;

pub use account::{Account, Plugin, Protection, Require};
pub use cache::VerifierCache;
pub use sha256_crypt::Crypt;

/// MySQL's default plugin since 8.0.
pub const CACHING_SHA2: &str = "caching_sha2_password";
/// The plugin before, and MariaDB's default.
pub const NATIVE: &str = "mysql_native_password";
/// The plugin that asks the system who is at the other end of a Unix socket.
pub const SOCKET: &str = "auth_socket";

/// Whether an answer says that there is no password. Old clients end even that with a zero byte.
pub fn is_without_password(answer: &[u8]) -> bool {
    matches!(answer, [] | [0])
}

/// Compares in a time that does not depend on where the first difference is.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let different = a.iter().zip(b).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    a.len() == b.len() && different == 0
}

/// What accounts keep of a password, as `mysql.user` has it. `random` are fresh random bytes for
/// its salt, `rounds` those of `caching_sha2_password`. Nothing is kept of no password. This takes
/// most of a millisecond: a statement does it once.
pub fn store(plugin: Plugin, password: &[u8], random: [u8; 20], rounds: u32) -> String {
    match plugin {
        _ if password.is_empty() => String::new(),
        Plugin::CachingSha2 => {
            let salt = sha2::salt(random);
            let digest = Crypt::of(password, &salt, rounds);
            sha2::Stored { rounds, salt, digest }.text()
        }
        Plugin::Native => native::stored(password),
        Plugin::Socket => String::from_utf8_lossy(password).into_owned(),
    }
}

/// `bytes` as hexadecimal digits, upper case.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
