//! Values by parameter.

use std::collections::BTreeMap;

use crate::ini::SectionKind;
use crate::parameter::{Default, Kind, Parameter};
use crate::value::Value;

/// What a configuration gives for the parameters of a section, by the table's names.
#[derive(Clone, Debug, std::default::Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
    /// The value that was given for a parameter.
    pub fn given(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// The value for a parameter of a section of this kind: the given one, else the default. None
    /// where the table has no such parameter, or no default for it.
    pub fn value(&self, kind: SectionKind, name: &str) -> Option<Value> {
        if let Some(value) = self.given(name) {
            return Some(value.clone());
        }
        match Parameter::find(name, kind)?.kind {
            Kind::Flag { default } => Some(Value::Flag(default)),
            Kind::Number { default: Default::Value(number), .. } => Some(Value::Number(number)),
            Kind::Number { default: Default::Follows(_), .. } | Kind::Threads | Kind::Cpus => None,
            Kind::Choice { default, .. } | Kind::Text { default } | Kind::Host { default } => {
                (!default.is_empty()).then(|| Value::Text(default.to_string()))
            }
        }
    }

    /// What was given, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }

    /// Whether nothing was given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn set(&mut self, name: &'static str, value: Value) {
        self.0.insert(name, value);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// A number that was given.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.given(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// A text that was given and is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.given(name) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// A yes or no that was given.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.given(name) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }
}
