//! Variables that somebody has given a value for all SQL nodes.
//!
//! # Owns
//! [`Settings`]: the values of SET GLOBAL and SET PERSIST, and how a change makes new ones of them.
//! # Guarantees
//! There are at most [`SETTINGS_MAX`], of [`SETTINGS_BYTES_MAX`] bytes together: they travel whole
//! with every change of the cluster state. A value of SET GLOBAL is not read any more after the
//! whole cluster was restarted.
//! # Not here
//! Which variables there are, and what their values mean: the SQL layer knows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most variables with a value.
pub const SETTINGS_MAX: usize = 1_000;
/// Names and values of all of them, at most, in bytes.
pub const SETTINGS_BYTES_MAX: usize = 64 << 10;

/// A value, with the number of restarts of the whole cluster that belongs to it; none for NULL.
type Stamped = (Option<String>, u32);

/// What a variable is for all SQL nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// From SET PERSIST: holds from so many restarts on.
    kept: Option<Stamped>,
    /// From SET GLOBAL: holds while there have been so many restarts.
    running: Option<Stamped>,
}

/// How a variable is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SettingChange {
    /// SET GLOBAL: until the whole cluster restarts.
    Run(Option<String>),
    /// SET PERSIST: from now on.
    Keep(Option<String>),
    /// SET PERSIST_ONLY: from the next restart of the whole cluster on.
    KeepOnly(Option<String>),
    /// RESET PERSIST: as it is until the whole cluster restarts, and then as it was at first.
    Forget,
}

/// The variables with a value, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Setting>);

impl Setting {
    /// What SQL nodes are to use after so many restarts; none for what each has been started with.
    fn value(&self, restarts: u32) -> Option<&Option<String>> {
        let running = self.running.as_ref().filter(|(_, at)| *at == restarts);
        let kept = self.kept.as_ref().filter(|(_, from)| *from <= restarts);
        running.or(kept).map(|(value, _)| value)
    }

    fn change(&mut self, change: &SettingChange, restarts: u32) {
        match change {
            SettingChange::Run(value) => self.running = Some((value.clone(), restarts)),
            SettingChange::Keep(value) => {
                *self = Self { kept: Some((value.clone(), restarts)), running: None };
            }
            SettingChange::KeepOnly(value) => {
                self.hold(restarts);
                self.kept = Some((value.clone(), restarts + 1));
            }
            SettingChange::Forget => {
                self.hold(restarts);
                self.kept = None;
            }
        }
    }

    /// Has the value that holds now hold until the next restart, whatever is kept.
    fn hold(&mut self, restarts: u32) {
        self.running = self.value(restarts).map(|value| (value.clone(), restarts));
    }

    fn bytes(&self) -> usize {
        let of = |stamped: &Option<Stamped>| {
            stamped.as_ref().and_then(|(value, _)| value.as_ref()).map_or(0, String::len)
        };
        of(&self.kept) + of(&self.running)
    }
}

impl Settings {
    /// Those that SQL nodes are to use after so many restarts of the whole cluster, with their
    /// values; a value of none is NULL.
    pub fn values(&self, restarts: u32) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().filter_map(move |(name, setting)| {
            setting.value(restarts).map(|value| (name.as_str(), value.as_deref()))
        })
    }

    /// Those that are kept when the whole cluster restarts, with their values.
    pub fn kept(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().filter_map(|(name, setting)| {
            setting.kept.as_ref().map(|(value, _)| (name.as_str(), value.as_deref()))
        })
    }

    /// The settings after these changes; none if they would be too many or too long.
    pub fn changed(&self, changes: &[(String, SettingChange)], restarts: u32) -> Option<Self> {
        let mut all = self.0.clone();
        for (name, change) in changes {
            all.entry(name.clone()).or_default().change(change, restarts);
        }
        let is_stale = |of: &Setting| {
            of.kept.is_none() && of.running.as_ref().is_none_or(|(_, at)| *at < restarts)
        };
        all.retain(|_, setting| !is_stale(setting));
        let bytes: usize = all.iter().map(|(name, setting)| name.len() + setting.bytes()).sum();
        (all.len() <= SETTINGS_MAX && bytes <= SETTINGS_BYTES_MAX).then_some(Self(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    fn after(settings: &Settings, change: SettingChange, restarts: u32) -> Settings {
        settings.changed(&[("x".to_owned(), change)], restarts).expect("there is room")
    }

    fn value(settings: &Settings, restarts: u32) -> Option<String> {
        let found = settings.values(restarts).find(|(name, _)| *name == "x");
        found.map(|(_, value)| value.unwrap_or("NULL").to_owned())
    }

    #[test]
    fn a_global_value_ends_with_a_restart_and_a_persisted_one_does_not() {
        let settings = after(&Settings::default(), SettingChange::Run(text("1")), 3);
        assert_eq!((value(&settings, 3), value(&settings, 4)), (text("1"), None));
        let settings = after(&settings, SettingChange::Keep(text("2")), 3);
        assert_eq!((value(&settings, 3), value(&settings, 4)), (text("2"), text("2")));
        let settings = after(&settings, SettingChange::Run(text("5")), 3);
        assert_eq!((value(&settings, 3), value(&settings, 4)), (text("5"), text("2")));
        let settings = after(&settings, SettingChange::Run(None), 3);
        assert_eq!(value(&settings, 3), text("NULL"));
    }

    #[test]
    fn what_only_a_restart_brings_changes_nothing_before() {
        let settings = after(&Settings::default(), SettingChange::KeepOnly(text("1")), 0);
        assert_eq!((value(&settings, 0), value(&settings, 1)), (None, text("1")));
        let settings = after(&settings, SettingChange::KeepOnly(text("2")), 1);
        assert_eq!((value(&settings, 1), value(&settings, 2)), (text("1"), text("2")));
        let settings = after(&settings, SettingChange::Forget, 2);
        assert_eq!((value(&settings, 2), value(&settings, 3)), (text("2"), None));
        assert_eq!(settings.kept().count(), 0);
    }

    #[test]
    fn what_holds_no_more_is_dropped_and_the_whole_is_bounded() {
        let settings = after(&Settings::default(), SettingChange::Run(text("1")), 0);
        let later = settings.changed(&[], 1).unwrap();
        assert_eq!(later, Settings::default());
        let long = "x".repeat(SETTINGS_BYTES_MAX);
        assert_eq!(later.changed(&[("x".to_owned(), SettingChange::Keep(Some(long)))], 1), None);
        let many = |n: usize| -> Vec<_> {
            (0..n).map(|i| (format!("v{i}"), SettingChange::Keep(None))).collect()
        };
        assert!(later.changed(&many(SETTINGS_MAX), 1).is_some());
        assert_eq!(later.changed(&many(SETTINGS_MAX + 1), 1), None);
    }
}
