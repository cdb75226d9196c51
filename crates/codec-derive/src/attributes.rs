//! What is said in `#[codec(…)]`.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitInt, Path, Result};

/// Everything that can be said; each place accepts some of it.
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) recursive: bool,
    pub(crate) local: bool,
    pub(crate) check: Option<Path>,
    pub(crate) with: Option<Path>,
    pub(crate) tag: Option<u8>,
    pub(crate) since: Option<u16>,
}

impl Attributes {
    /// Reads attributes, of which those named in `allowed` may stand here.
    pub(crate) fn read(attributes: &[Attribute], allowed: &[&str]) -> Result<Self> {
        let mut read = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("codec")) {
            attribute.parse_nested_meta(|meta| {
                let name = allowed.iter().find(|name| meta.path.is_ident(name));
                match name.copied() {
                    Some("recursive") => read.recursive = true,
                    Some("local") => read.local = true,
                    Some("check") => read.check = Some(path(&meta)?),
                    Some("with") => read.with = Some(path(&meta)?),
                    Some("tag") => read.tag = Some(number(&meta)?.base10_parse()?),
                    Some("since") => read.since = Some(number(&meta)?.base10_parse()?),
                    _ => {
                        let message = format!("one of these may stand here: {allowed:?}");
                        return Err(meta.error(message));
                    }
                }
                Ok(())
            })?;
        }
        Ok(read)
    }
}

fn path(meta: &ParseNestedMeta<'_>) -> Result<Path> {
    meta.value()?.parse()
}

fn number(meta: &ParseNestedMeta<'_>) -> Result<LitInt> {
    meta.value()?.parse()
}
