//! Places in the binary log: files, positions and GTIDs, all computed from epochs.
//!
//! # Guarantees
//! Every SQL node computes the same.

use model::{ClusterId, Epoch, StreamId};

/// A file has the epochs that are alike but for so many of their lowest bits.
const FILE_BITS: u32 = 10;
/// Bits of a GTID's number below that of the file.
const NUMBER_BITS: u32 = 16;
/// What names of files begin with.
pub(crate) const BASENAME: &str = "binlog";

/// A log: what all who read it have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// The stream that it is made of.
    pub(crate) stream: StreamId,
    /// The first epoch that it has in this generation of the cluster.
    pub(crate) begin: Epoch,
    /// JSON is text, for replicas that have no such type.
    pub(crate) json_is_text: bool,
    /// `server_id`.
    pub(crate) server: u32,
    /// What its GTIDs begin with.
    pub(crate) uuid: [u8; 16],
}

/// The uuid of a cluster's GTIDs.
pub(crate) fn uuid_of(cluster: ClusterId) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&cluster.0.to_be_bytes());
    // Of a version and a variant that say that somebody else has made it up.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = 0x80;
    uuid[9] = cluster.0.to_be_bytes()[6];
    uuid[10..].copy_from_slice(b"nines\0");
    uuid
}

/// The number of the file that has an epoch.
pub(crate) fn file_of(epoch: Epoch) -> u64 {
    epoch.0 >> FILE_BITS
}

/// The last epoch of a file.
pub(crate) fn last_of(file: u64) -> Epoch {
    Epoch(file << FILE_BITS | ((1 << FILE_BITS) - 1))
}

/// The name of a file.
pub(crate) fn file_name(file: u64) -> String {
    format!("{BASENAME}.{file:06}")
}

/// The number of the file of a name.
pub(crate) fn file_named(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(BASENAME)?.strip_prefix('.')?;
    let number = digits.parse().ok()?;
    (digits.len() >= 6 && file_name(number) == name).then_some(number)
}

/// The numbers of the transactions of a file are above this one.
pub(crate) fn numbers_above(file: u64) -> u64 {
    file.saturating_mul(1 << NUMBER_BITS)
}

/// The file of the transaction with this number.
pub(crate) fn file_of_number(number: u64) -> u64 {
    number.saturating_sub(1) >> NUMBER_BITS
}

impl Log {
    /// The first epoch of a file; none of one that the log does not have.
    pub(crate) fn first_of(&self, file: u64) -> Option<Epoch> {
        let end = file.checked_add(1)?.checked_mul(1 << FILE_BITS)?;
        let first = file << FILE_BITS;
        (end > self.begin.0).then(|| Epoch(first.max(self.begin.0)))
    }

    /// The number of the first file.
    pub(crate) fn first_file(&self) -> u64 {
        file_of(self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for file in [0, 7, 1_234_567, 1 << 40] {
            assert_eq!(file_named(&file_name(file)), Some(file));
        }
        for name in ["binlog", "binlog.7", "binlog.0000007", "other.000007", "binlog.00000x", ""] {
            assert_eq!(file_named(name), None, "{name}");
        }
    }

    #[test]
    fn numbers_of_transactions_tell_their_file() {
        for file in [0, 9, 1 << 30] {
            let above = numbers_above(file);
            assert_eq!(file_of_number(above + 1), file);
            assert_eq!(file_of_number(above + 60_000), file);
        }
        assert_eq!(file_of_number(0), 0, "nobody has it");
    }

    #[test]
    fn a_log_begins_in_the_middle_of_its_first_file() {
        let uuid = uuid_of(ClusterId(77));
        let begin = Epoch(5_000);
        let log = Log { stream: StreamId(1), begin, json_is_text: false, server: 1, uuid };
        assert_eq!(log.first_of(3), None);
        assert_eq!(log.first_of(log.first_file()), Some(begin));
        assert_eq!(log.first_of(5), Some(Epoch(5_120)));
        assert_eq!(log.first_of(u64::MAX), None);
        assert_eq!(log.first_of(u64::MAX >> 1), None);
    }
}
