//! A description of bytes: for people who read them, for tests that compare it with an earlier one
//! and that make values of every kind.

use std::collections::BTreeMap;
use std::fmt;

/// How a value looks in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A byte.
    Byte,
    /// A byte, 0 or 1.
    Truth,
    /// A number of so many bits at most, in variable length.
    Varint(u32),
    /// A signed number of 64 bits, in variable length: the sign is the lowest bit.
    Zigzag,
    /// Eight bytes, little-endian.
    Eight,
    /// A length and bytes.
    Bytes,
    /// A length and bytes of UTF-8.
    Text,
    /// A length and bytes, which are the JSON of what is named.
    Json(&'static str),
    /// A length and elements.
    List(Box<Shape>),
    /// A length and elements, of which no two are equal.
    Set(Box<Shape>),
    /// A length and pairs, of which no two have the same key.
    Map(Box<Shape>, Box<Shape>),
    /// A truth value, and the value if it is true.
    Optional(Box<Shape>),
    /// A truth value, and the first if it is false, the second if it is true.
    Result(Box<Shape>, Box<Shape>),
    /// One after the other.
    Tuple(Vec<Shape>),
    /// A type that has a definition.
    Named(&'static str),
}

/// A field of a struct or a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, or its position.
    pub name: &'static str,
    /// Its value.
    pub shape: Shape,
    /// The version that brought it; before it, it is not there.
    pub since: u16,
}

/// A variant of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The byte it begins with.
    pub tag: u8,
    /// Its name.
    pub name: &'static str,
    /// What follows; nothing when the variant never leaves a process.
    pub fields: Option<Vec<Field>>,
    /// The version that brought it.
    pub since: u16,
}

/// How a type looks in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Fields, one after the other.
    Struct(Vec<Field>),
    /// A tag, and the fields of its variant.
    Enum(Vec<Variant>),
    /// A number in variable length, out of a list.
    Numbers(Vec<(u64, &'static str)>),
}

/// The definitions of types, by their names.
#[derive(Clone, Debug, Default)]
pub struct Format {
    types: BTreeMap<&'static str, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// The module the type is from: two types of one name would be one here.
    module: &'static str,
    definition: Definition,
}

impl Format {
    /// Without any type.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a type, unless it is there. `define` describes what it consists of.
    pub fn define(
        &mut self,
        name: &'static str,
        module: &'static str,
        define: impl FnOnce(&mut Format) -> Definition,
    ) -> Shape {
        if let Some(entry) = self.types.get(name) {
            assert_eq!(entry.module, module, "two types are called {name}");
        } else {
            // First without content: it may contain itself.
            let entry = Entry { module, definition: Definition::Struct(Vec::new()) };
            self.types.insert(name, entry);
            let definition = define(self);
            self.types.insert(name, Entry { module, definition });
        }
        Shape::Named(name)
    }

    /// The definition of a type.
    pub fn definition(&self, name: &str) -> Option<&Definition> {
        self.types.get(name).map(|entry| &entry.definition)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Byte => f.write_str("byte"),
            Shape::Truth => f.write_str("truth"),
            Shape::Varint(bits) => write!(f, "varint{bits}"),
            Shape::Zigzag => f.write_str("zigzag"),
            Shape::Eight => f.write_str("eight"),
            Shape::Bytes => f.write_str("bytes"),
            Shape::Text => f.write_str("text"),
            Shape::Json(what) => write!(f, "json({what})"),
            Shape::List(element) => write!(f, "list({element})"),
            Shape::Set(element) => write!(f, "set({element})"),
            Shape::Map(key, value) => write!(f, "map({key}, {value})"),
            Shape::Optional(value) => write!(f, "optional({value})"),
            Shape::Result(value, error) => write!(f, "result({value}, {error})"),
            Shape::Named(name) => f.write_str(name),
            Shape::Tuple(parts) => {
                f.write_str("(")?;
                for (at, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

impl fmt::Display for Format {
    /// The types in the order of their names, a line for each field.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, entry) in &self.types {
            writeln!(f, "\n{name}")?;
            match &entry.definition {
                Definition::Struct(fields) => write_fields(f, "  ", fields)?,
                Definition::Numbers(numbers) => {
                    for (number, name) in numbers {
                        writeln!(f, "  {number} {name}")?;
                    }
                }
                Definition::Enum(variants) => {
                    for Variant { tag, name, fields, since } in variants {
                        let local = if fields.is_none() { ", never sent" } else { "" };
                        writeln!(f, "  {tag} {name}{}{local}", Since(*since))?;
                        write_fields(f, "    ", fields.as_deref().unwrap_or_default())?;
                    }
                }
            }
        }
        Ok(())
    }
}

fn write_fields(f: &mut fmt::Formatter<'_>, indent: &str, fields: &[Field]) -> fmt::Result {
    fields.iter().try_for_each(|Field { name, shape, since }| {
        writeln!(f, "{indent}{name}: {shape}{}", Since(*since))
    })
}

/// The version that brought something, if it was not always there.
struct Since(u16);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 > 1 { write!(f, ", since {}", self.0) } else { Ok(()) }
    }
}
