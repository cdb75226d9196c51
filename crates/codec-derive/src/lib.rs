//! `#[derive(Codec)]`: the traits of `codec` for structs and enums.
//!
//! # Owns
//! Attributes `#[codec(…)]`:
//!
//! | where | attribute | meaning |
//! |---|---|---|
//! | type | `recursive` | it contains itself: its depth is counted |
//! | type, field | `check = path` | a function from a reference to `bool`: what it refuses does not decode |
//! | variant | `tag = N` | the byte that stands for it; its position unless given |
//! | variant | `local` | it never leaves a process: neither encoded nor decoded |
//! | variant, field | `since = N` | the protocol version that brought it |
//! | field | `with = module` | the functions `encode`, `decode` and `describe` of a module take care of it |
//! # Not here
//! What the bytes mean: see `codec`. Generic types have no derive.

mod attributes;
mod generate;

use proc_macro::TokenStream;

/// Implements `Encode`, `Decode` and `Describe`.
#[proc_macro_derive(Codec, attributes(codec))]
pub fn derive_codec(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    generate::codec(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
