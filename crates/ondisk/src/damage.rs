//! What is wrong with a file, and where.

use std::fmt;

/// A place in a file from which on it cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// What is wrong there.
    pub kind: DamageKind,
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// It is not what its name says.
    Foreign,
    /// It was written by a newer program.
    Version {
        /// The version of its format.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// It ends in the middle of something.
    Cut,
    /// A checksum does not match what it covers.
    Checksum,
    /// Zeros where a record should begin: space that was never written.
    Blank,
    /// The checksum matches, and the content breaks a rule of the format.
    Content(&'static str),
}

impl Damage {
    pub(crate) fn new(offset: u64, kind: DamageKind) -> Self {
        Self { offset, kind }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamageKind::Foreign => f.write_str("not a file of this kind"),
            DamageKind::Version { found, known } => write!(
                f,
                "format version {found}, this program reads versions up to {known}: use a newer one"
            ),
            DamageKind::Cut => f.write_str("the file ends here, in the middle of a record"),
            DamageKind::Checksum => f.write_str("the checksum does not match"),
            DamageKind::Blank => f.write_str("nothing was written here"),
            DamageKind::Content(what) => f.write_str(what),
        }
    }
}
