//! Positions in a change feed.
//!
//! # Owns
//! Their texts. `4711.3` is the third change of the epoch 4711, `4711` is behind all changes of
//! that epoch, and `s4711.3` is the third row of the snapshot of that epoch.
//! # Guarantees
//! Positions of changes ascend with the order in which a feed gives them, and are the same whoever
//! gives them.

use std::fmt;

use model::Epoch;

/// Behind all changes of an epoch.
const ALL: u64 = u64::MAX;

/// A position among the changes of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    epoch: u64,
    number: u64,
}

impl Position {
    /// The change of this number in an epoch; they count from 1.
    pub(crate) fn of(epoch: Epoch, number: u64) -> Self {
        Self { epoch: epoch.0, number }
    }

    /// Behind an epoch.
    pub(crate) fn behind(epoch: Epoch) -> Self {
        Self { epoch: epoch.0, number: ALL }
    }

    /// The last epoch all of whose changes are at the position or before it.
    pub(crate) fn whole(self) -> Epoch {
        Epoch(if self.number == ALL { self.epoch } else { self.epoch.saturating_sub(1) })
    }

    /// The epoch that it is in.
    pub(crate) fn epoch(self) -> Epoch {
        Epoch(self.epoch)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            ALL => write!(f, "{}", self.epoch),
            number => write!(f, "{}.{number}", self.epoch),
        }
    }
}

/// The text of a position among the rows of a snapshot.
pub(crate) fn of_snapshot(epoch: Epoch, number: u64) -> String {
    format!("s{}.{number}", epoch.0)
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With a snapshot, if the feed has one: nothing was read, or not the whole snapshot.
    Anew,
    /// Behind a position.
    Behind(Position),
}

/// Reads the text of a position; none if it is no such text.
pub(crate) fn parse(text: &[u8]) -> Option<Start> {
    let text = str::from_utf8(text).ok()?.trim();
    let number = |digits: &str| -> Option<u64> {
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|number| is_number && *number < ALL)
    };
    if let Some(of_snapshot) = text.strip_prefix('s') {
        let (epoch, row) = of_snapshot.split_once('.')?;
        return number(epoch).and(number(row)).map(|_| Start::Anew);
    }
    let position = match text.split_once('.') {
        Some((epoch, at)) => Position { epoch: number(epoch)?, number: number(at)? },
        None => Position { epoch: number(text)?, number: ALL },
    };
    Some(Start::Behind(position))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_are_written() {
        for position in [Position::of(Epoch(4711), 3), Position::behind(Epoch(0))] {
            let text = position.to_string();
            assert_eq!(parse(text.as_bytes()), Some(Start::Behind(position)), "{text}");
        }
        assert_eq!(parse(of_snapshot(Epoch(7), 1).as_bytes()), Some(Start::Anew));
        for text in
            ["", "x", "4711.", ".3", "-1", "+1", "1.2.3", "s7", "s.1", "18446744073709551615"]
        {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn they_ascend_with_the_changes() {
        let at = |epoch, number| Position::of(Epoch(epoch), number);
        assert!(at(1, 2) < at(1, 10) && at(1, 10) < Position::behind(Epoch(1)));
        assert!(Position::behind(Epoch(1)) < at(2, 1));
        assert_eq!(at(5, 1).whole(), Epoch(4));
        assert_eq!(Position::behind(Epoch(5)).whole(), Epoch(5));
    }
}
