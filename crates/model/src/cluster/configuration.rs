//! The configuration of the cluster, as the control log has it.
//!
//! # Owns
//! [`Configured`], the text with its history; [`Revision`], one change of it.
//! # Guarantees
//! Versions are counted without a gap, from 1 on: a change is made of the version before, or has no
//! effect. Text and history have limits.
//! # Not here
//! What the text means, and whether it may be taken: the management nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Most bytes of a configuration: as canonical text, 255 nodes with 60 parameters each.
pub const CONFIGURATION_BYTES_MAX: usize = 512 << 10;
/// Most changes that are remembered.
pub const REVISIONS_MAX: usize = 50;
/// Most bytes of what is remembered of a change.
pub const REVISION_BYTES_MAX: usize = 4 << 10;

/// The configuration that all nodes get from the management nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configured {
    /// Canonical text of a `config.ini`.
    pub text: Arc<str>,
    /// The changes that led to it, oldest first; the last one has its version.
    pub revisions: Arc<Vec<Revision>>,
}

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// The version that it made.
    pub version: u64,
    /// When, in seconds since 1970, by the clock of the management node that was asked.
    pub at: u64,
    /// Who ordered it.
    pub by: String,
    /// Tells the text of this version from others.
    pub fingerprint: String,
    /// What has changed, in words.
    pub what: Vec<String>,
    /// The nodes that run by it only after a restart, by id.
    pub restarts: Vec<u16>,
}

impl Revision {
    fn bytes(&self) -> usize {
        let lines: usize = self.what.iter().map(String::len).sum();
        self.by.len() + self.fingerprint.len() + lines + self.restarts.len() * 2
    }
}

impl Configured {
    /// The version: how many texts there have been.
    pub fn version(&self) -> u64 {
        self.revisions.last().map_or(0, |revision| revision.version)
    }

    /// What comes after `before` by a change; none if the change was made of another version, or
    /// is too long.
    pub fn after(before: Option<&Self>, text: &str, revision: &Revision) -> Option<Self> {
        let version = before.map_or(0, Self::version);
        let fits = text.len() <= CONFIGURATION_BYTES_MAX
            && revision.bytes() <= REVISION_BYTES_MAX
            && revision.version == version + 1;
        if !fits {
            return None;
        }
        let mut revisions = before.map_or_else(Vec::new, |before| before.revisions.to_vec());
        if revisions.len() >= REVISIONS_MAX {
            revisions.remove(0);
        }
        revisions.push(revision.clone());
        Some(Self { text: text.into(), revisions: Arc::new(revisions) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(version: u64) -> Revision {
        Revision {
            version,
            at: 7,
            by: "somebody".into(),
            fingerprint: "f".into(),
            what: vec!["DataMemory of node 1: 1G to 2G".into()],
            restarts: vec![1],
        }
    }

    #[test]
    fn a_change_is_made_of_the_version_before_or_has_no_effect() {
        let first = Configured::after(None, "a", &revision(1)).expect("it is the first");
        assert_eq!((first.version(), &*first.text), (1, "a"));
        assert_eq!(Configured::after(None, "a", &revision(2)), None);
        assert_eq!(Configured::after(Some(&first), "b", &revision(1)), None);
        assert_eq!(Configured::after(Some(&first), "b", &revision(3)), None);
        let second = Configured::after(Some(&first), "b", &revision(2)).expect("it is the next");
        assert_eq!((second.version(), &*second.text, second.revisions.len()), (2, "b", 2));
    }

    #[test]
    fn text_and_history_have_limits() {
        let long = "x".repeat(CONFIGURATION_BYTES_MAX + 1);
        assert_eq!(Configured::after(None, &long, &revision(1)), None);
        assert!(Configured::after(None, &long[1..], &revision(1)).is_some());
        let what = vec!["x".repeat(REVISION_BYTES_MAX)];
        assert_eq!(Configured::after(None, "a", &Revision { what, ..revision(1) }), None);
        let mut last = None;
        for version in 1..=REVISIONS_MAX as u64 + 10 {
            last = Configured::after(last.as_ref(), "a", &revision(version));
        }
        let last = last.expect("each follows the one before");
        assert_eq!(last.revisions.len(), REVISIONS_MAX);
        assert_eq!(last.version(), REVISIONS_MAX as u64 + 10);
        assert_eq!(last.revisions[0].version, 11);
    }
}
