//! Sets of CPUs as text: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

use crate::problem::quoted;

/// Numbers of CPUs, each once, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(Vec<u16>);

impl CpuSet {
    /// Reads numbers and ranges with commas between them.
    pub fn parse(text: &str) -> Result<CpuSet, String> {
        let mut cpus = BTreeSet::new();
        for piece in text.split(',') {
            let piece = piece.trim();
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let (Some(first), Some(last)) = (cpu(first), cpu(last)) else {
                let piece = quoted(piece);
                return Err(format!("`{piece}` is no CPU; write numbers below {CPUS_MAX}, or 0-3"));
            };
            if first > last {
                return Err(format!("{first}-{last} has nothing in it; write the lower one first"));
            }
            cpus.extend(first..=last);
        }
        Ok(CpuSet(cpus.into_iter().collect()))
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn cpu(text: &str) -> Option<u16> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut index = 0;
        while let Some(first) = self.0.get(index).copied() {
            let mut last = first;
            let comma = if index == 0 { "" } else { "," };
            while self.0.get(index + 1) == last.checked_add(1).as_ref() {
                last += 1;
                index += 1;
            }
            index += 1;
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

/// As in NDB, and above the number of CPUs of any machine.
const CPUS_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for (text, canonical) in
            [("0", "0"), ("3,1,2", "1-3"), ("0-3, 8,9 ,11", "0-3,8-9,11"), ("5,5,5-5", "5")]
        {
            assert_eq!(CpuSet::parse(text).unwrap().to_string(), canonical);
        }
        let set = CpuSet::parse("0-3,8").unwrap();
        assert_eq!((set.len(), set.is_empty()), (5, false));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
    }

    #[test]
    fn what_is_no_set() {
        for text in ["", ",", "a", "1-", "-1", "3-1", "65536", "0-99999", "+1", "1--2"] {
            assert!(CpuSet::parse(text).is_err(), "{text}");
        }
    }
}
