//! Rows found by a hash: which of those that are known is the same as another.

/// Numbers of rows by the hashes of their keys, which lie elsewhere.
#[derive(Debug, Default)]
pub(super) struct HashedRows {
    /// One more than a row's number, and above it the high half of its hash; 0 where there is none.
    /// A power of two of them. The highest bits of a hash tell where to look, so that a larger
    /// table is filled in the order of a smaller one.
    slots: Vec<u64>,
    /// Number of rows.
    count: usize,
}

/// Fewest slots.
const SLOTS_LEAST: usize = 16;

const HIGH_HALF: u64 = !0 << 32;

impl HashedRows {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The row with this hash for which `is_same` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_same: impl Fn(usize) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return None;
            }
            let row = slot as u32 as usize - 1;
            if (slot ^ hash) & HIGH_HALF == 0 && is_same(row) {
                return Some(row);
            }
            place = self.after(place);
        }
    }

    /// Adds a row with this hash, which has the next number.
    pub(super) fn add(&mut self, hash: u64) {
        if 4 * (self.count + 1) > 3 * self.slots.len() {
            let size = (2 * self.slots.len()).max(SLOTS_LEAST);
            let slots = std::mem::replace(&mut self.slots, vec![0; size]);
            slots.into_iter().filter(|slot| *slot != 0).for_each(|slot| self.enter(slot));
        }
        self.count += 1;
        self.enter(hash & HIGH_HALF | self.count as u64);
    }

    fn enter(&mut self, slot: u64) {
        let mut place = self.place(slot);
        while self.slots[place] != 0 {
            place = self.after(place);
        }
        self.slots[place] = slot;
    }

    /// Where to look first for a hash.
    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    /// Where to look next.
    #[inline]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        8 * self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_whatever_their_hashes_have_in_common() {
        // All different, different in the high or the low half alone, and all the same.
        let hashes: [fn(u64) -> u64; 4] =
            [crate::join::mixed, |row| row << 32, |row| row, |_| HIGH_HALF];
        for hash in hashes {
            let mut rows = HashedRows::default();
            assert_eq!(rows.find(hash(0), |_| true), None);
            for row in 0..1_000 {
                assert_eq!(rows.find(hash(row), |at| at as u64 == row), None);
                rows.add(hash(row));
            }
            for row in 0..1_000 {
                let found = rows.find(hash(row), |at| at as u64 == row);
                assert_eq!(found, Some(row as usize));
            }
            assert_eq!(rows.len(), 1_000);
        }
    }
}
