//! MySQL's language: from the bytes of a statement to a syntax tree, and back to text.
//!
//! # Owns
//! The lexer, the syntax tree, the parser, the printer, and what identifies a statement without its
//! values: its digest and its key in a plan cache.
//! # Invariants
//! 1. No input panics or overflows the stack, and time is linear in the length of the text.
//! 2. What a tree prints as parses to an equal tree.
//! # Failure
//! A statement that is not understood gives MySQL's own error number and text.
//! # Not here
//! Names and types: the binder's. Sessions and their variables: [`SqlMode`] is passed in.

pub mod ast;
mod digest;
mod error;
mod keyword;
mod lexer;
mod parameterise;
mod parser;
mod printer;

pub use digest::{Digest, digest};
pub use error::ParseError;
pub use keyword::{is_reserved, keywords};
pub use lexer::SqlMode;
pub use parameterise::rows::{LiteralRows, RowLiteral};
pub use parameterise::{Literals, parameterise};
pub use parser::{
    Look, Parsed, parse, parse_at, parse_at_looking, parse_expression, parse_parameterised,
};
pub use printer::print_expression_with_charset;

/// Greatest height of a syntax tree: longer chains of operators and deeper nesting are refused, so
/// that recursion over a tree is safe.
pub const TREE_HEIGHT_MAX: u32 = 512;

/// How deep the parser's own recursion goes. A parenthesis, a call or a subquery is a level or two;
/// so is each change of precedence.
pub const NESTING_MAX: u32 = 400;
