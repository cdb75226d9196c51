//! From a type's definition to its implementations.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Result, Variant};

use crate::attributes::Attributes;

/// The three implementations for a type.
pub(crate) fn codec(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "generic types have no codec"));
    }
    let attributes = Attributes::read(&input.attrs, &["recursive", "check"])?;
    let body = match &input.data {
        Data::Struct(data) => Body::of_struct(&data.fields)?,
        Data::Enum(data) => Body::of_enum(&input.ident, data)?,
        Data::Union(_) => return Err(Error::new_spanned(input, "a union has no codec")),
    };
    Ok(body.implementations(&input.ident, &attributes))
}

/// What the functions of a type do.
struct Body {
    /// A statement that writes `self` to `out`.
    encode: TokenStream,
    /// An expression that reads the type from `input`; errors return from the function it is in.
    decode: TokenStream,
    /// An expression of the type's definition, from `format`.
    describe: TokenStream,
    /// It is one field without a name.
    is_plain: bool,
}

impl Body {
    fn of_struct(fields: &Fields) -> Result<Self> {
        let parts = Parts::of(fields)?;
        let Parts { pattern, encode, decode, describe } = parts;
        Ok(Self {
            encode: quote! { let Self #pattern = self; #encode },
            decode: quote! { Self #decode },
            describe: quote! { ::codec::Definition::Struct(#describe) },
            is_plain: matches!(fields, Fields::Unnamed(fields) if fields.unnamed.len() == 1),
        })
    }

    fn of_enum(name: &Ident, data: &DataEnum) -> Result<Self> {
        let mut tags = BTreeSet::new();
        let (mut encode, mut decode, mut describe) = (Vec::new(), Vec::new(), Vec::new());
        for (position, variant) in data.variants.iter().enumerate() {
            let arms = Arms::of(name, position, variant)?;
            if !tags.insert(arms.tag) {
                let message = format!("two variants have tag {}", arms.tag);
                return Err(Error::new_spanned(variant, message));
            }
            encode.push(arms.encode);
            decode.push(arms.decode);
            describe.push(arms.describe);
        }
        Ok(Self {
            encode: quote! { match self { #(#encode)* } },
            decode: quote! {
                let at = input.position();
                match input.u8()? {
                    #(#decode)*
                    tag => {
                        let error = input.fail_at(::codec::Problem::Tag(tag), at);
                        return ::core::result::Result::Err(error);
                    }
                }
            },
            describe: quote! { ::codec::Definition::Enum(::std::vec![#(#describe),*]) },
            is_plain: false,
        })
    }

    fn implementations(self, name: &Ident, attributes: &Attributes) -> TokenStream {
        let Self { mut encode, mut decode, describe, is_plain } = self;
        let text = name.to_string();
        if attributes.recursive {
            encode = quote! { out.descend(|out| { #encode }); };
            decode = quote! { input.descend(|input| ::core::result::Result::Ok({ #decode }))? };
        }
        let check = attributes.check.as_ref().map(|check| {
            quote! {
                if !#check(&value) {
                    let error = input.fail_at(::codec::Problem::Invalid, start);
                    return ::core::result::Result::Err(error);
                }
            }
        });
        // A number that has a name is part of the one who has it: more would cost more than it.
        let named = !is_plain || check.is_some();
        let enter = named.then(|| quote! { let outer = input.enter(#text); });
        let leave = named.then(|| quote! { input.leave(outer); });
        let start = check.as_ref().map(|_| quote! { let start = input.position(); });
        quote! {
            impl ::codec::Encode for #name {
                #[inline]
                fn encode(&self, out: &mut ::codec::Writer) {
                    #encode
                }
            }

            impl ::codec::Decode for #name {
                #[inline]
                fn decode(
                    input: &mut ::codec::Reader<'_>,
                ) -> ::core::result::Result<Self, ::codec::DecodeError> {
                    #enter
                    #start
                    let value = { #decode };
                    #check
                    #leave
                    ::core::result::Result::Ok(value)
                }
            }

            impl ::codec::Describe for #name {
                fn describe(format: &mut ::codec::Format) -> ::codec::Shape {
                    format.define(#text, ::core::module_path!(), |format| #describe)
                }
            }
        }
    }
}

/// What a variant adds to the functions of its enum.
struct Arms {
    tag: u8,
    encode: TokenStream,
    decode: TokenStream,
    describe: TokenStream,
}

impl Arms {
    fn of(name: &Ident, position: usize, variant: &Variant) -> Result<Self> {
        let attributes = Attributes::read(&variant.attrs, &["tag", "since", "local"])?;
        let position = u8::try_from(position)
            .map_err(|_| Error::new_spanned(variant, "an enum has 256 variants at most"))?;
        let (tag, since) = (attributes.tag.unwrap_or(position), attributes.since.unwrap_or(1));
        let ident = &variant.ident;
        let (text, path) = (ident.to_string(), format!("{name}::{ident}"));
        if attributes.local {
            return Ok(Self {
                tag,
                encode: quote! {
                    Self::#ident { .. } => {
                        out.refuse(::codec::EncodeError::Local { what: #path });
                    }
                },
                decode: quote! {
                    #tag => {
                        let error = input.fail_at(::codec::Problem::Local, at);
                        return ::core::result::Result::Err(error.within(#path));
                    }
                },
                describe: quote! {
                    ::codec::Variant {
                        tag: #tag,
                        name: #text,
                        fields: ::core::option::Option::None,
                        since: #since,
                    }
                },
            });
        }
        let Parts { pattern, encode, decode, describe } = Parts::of(&variant.fields)?;
        let (newer, known) = if since > 1 {
            let newer = quote! {
                if out.version() < #since {
                    out.refuse(::codec::EncodeError::Newer { what: #path, since: #since });
                }
            };
            (Some(newer), Some(quote! { if input.version() >= #since }))
        } else {
            (None, None)
        };
        Ok(Self {
            tag,
            encode: quote! {
                Self::#ident #pattern => {
                    #newer
                    out.put_u8(#tag);
                    #encode
                }
            },
            decode: quote! { #tag #known => Self::#ident #decode, },
            describe: quote! {
                ::codec::Variant {
                    tag: #tag,
                    name: #text,
                    fields: ::core::option::Option::Some(#describe),
                    since: #since,
                }
            },
        })
    }
}

/// What the fields of a struct or a variant add.
struct Parts {
    /// Binds all fields; nothing when there are none.
    pattern: TokenStream,
    /// Statements that write what is bound.
    encode: TokenStream,
    /// What follows the name in an expression that reads the fields.
    decode: TokenStream,
    /// A list of fields.
    describe: TokenStream,
}

impl Parts {
    fn of(fields: &Fields) -> Result<Self> {
        let mut names = Vec::new();
        let (mut encode, mut decode, mut describe) = (Vec::new(), Vec::new(), Vec::new());
        for (position, field) in fields.iter().enumerate() {
            let attributes = Attributes::read(&field.attrs, &["since", "with", "check"])?;
            let name = field.ident.clone().unwrap_or_else(|| format_ident!("field_{position}"));
            let text = field.ident.as_ref().map_or_else(|| position.to_string(), Ident::to_string);
            let (kind, since) = (&field.ty, attributes.since.unwrap_or(1));
            let (mut write, mut read, shape) = match &attributes.with {
                None => (
                    quote! { <#kind as ::codec::Encode>::encode(#name, out); },
                    quote! { <#kind as ::codec::Decode>::decode(input)? },
                    quote! { <#kind as ::codec::Describe>::describe(format) },
                ),
                Some(with) => (
                    quote! { #with::encode(#name, out); },
                    quote! { #with::decode(input)? },
                    quote! { #with::describe(format) },
                ),
            };
            if let Some(check) = &attributes.check {
                read = quote! {{
                    let at = input.position();
                    let value = #read;
                    if !#check(&value) {
                        let error = input.fail_at(::codec::Problem::Invalid, at);
                        return ::core::result::Result::Err(error);
                    }
                    value
                }};
            }
            if since > 1 {
                write = quote! { if out.version() >= #since { #write } };
                read = quote! {
                    if input.version() >= #since {
                        #read
                    } else {
                        ::core::default::Default::default()
                    }
                };
            }
            encode.push(write);
            decode.push(if field.ident.is_some() {
                quote! { #name: #read }
            } else {
                read
            });
            describe.push(quote! {
                ::codec::Field { name: #text, shape: #shape, since: #since }
            });
            names.push(name);
        }
        let (pattern, decode) = match fields {
            Fields::Named(_) => (quote! { { #(#names),* } }, quote! { { #(#decode),* } }),
            Fields::Unnamed(_) => (quote! { ( #(#names),* ) }, quote! { ( #(#decode),* ) }),
            Fields::Unit => (TokenStream::new(), TokenStream::new()),
        };
        Ok(Self {
            pattern,
            encode: quote! { #(#encode)* },
            decode,
            describe: quote! { ::std::vec![#(#describe),*] },
        })
    }
}
