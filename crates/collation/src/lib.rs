//! Character sets and collations: how text is ordered, matched, folded and converted.
//!
//! # Owns
//! The registry of collations under MySQL's numbers and names, weight tables generated from Unicode
//! data, comparison, sort keys, hashes, LIKE, searching, letter case, conversion of character sets.
//! # Invariants
//! 1. Text is UTF-8 everywhere inside, whatever the character set of its column: that set bounds
//!    which characters may occur and by which bytes clients see them. The one exception is the set
//!    `binary`, whose text is bytes.
//! 2. `compare`, the byte order of `sort_key`, and equality of `hash` never disagree.
//! 3. No input panics: a byte that is not part of well-formed UTF-8 sorts as a character of its own
//!    behind all others.
//! # Not here
//! Which collation an expression has (`sqltype`, `sql-expression`).
//!
//! How the tables are made: `crates/collation/generate`.

mod code_order;
mod coded;
mod convert;
mod general;
mod letter_case;
mod order;
mod pattern;
mod registry;
mod sort_key;
mod sort_prefix;
mod tailored;
mod uca;
mod utf8;

pub use convert::{
    Converted, from_utf8, invalid_utf8_at, to_utf8, to_utf8_in_parts, unrepresentable_at,
};
pub use letter_case::{lower, upper};
pub use order::{compare, equal, hash, pad_of_bytes, weight_string};
pub use pattern::{Pattern, find, like, like_prefix};
pub use registry::{COLLATIONS, Charset, Collation, CollationId, Pad};
pub use sort_key::{prefix_key, sort_key};
pub use sort_prefix::sort_prefix;
pub use utf8::{char_count, char_size, chars_size};
