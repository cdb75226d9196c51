//! Times of operations by size, in little memory: percentiles are right to one part in 64.

/// Counts of times, in buckets that grow with them.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    longest: u64,
}

/// Buckets of each power of two.
const PARTS: u64 = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; bucket(u64::MAX) + 1], total: 0, longest: 0 }
    }

    pub(crate) fn add(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.longest = self.longest.max(nanos);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// What `percent` in a hundred of the times do not exceed; none of none.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        self.thousandth(percent * 10)
    }

    /// What so many in a thousand of the times do not exceed; none of none.
    pub(crate) fn thousandth(&self, share: u64) -> Option<u64> {
        let rank = (self.total * share).div_ceil(1_000).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(longest_of(at).min(self.longest))
    }
}

/// The bucket of a time.
fn bucket(nanos: u64) -> usize {
    // Below two times PARTS each value has its own.
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(PART_BITS + 1);
    (u64::from(shift) * PARTS + (nanos >> shift)) as usize
}

/// The longest time of a bucket.
fn longest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS) << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_a_bucket_little_wider_than_itself() {
        let mut last = None;
        for exponent in 0..64 {
            for nanos in
                [1 << exponent, (1 << exponent) + (1 << exponent >> 1), u64::MAX >> exponent]
            {
                let at = bucket(nanos);
                let longest = longest_of(at);
                assert!(longest >= nanos && longest - nanos <= nanos / PARTS, "{nanos}: {longest}");
            }
        }
        for nanos in 0..100_000 {
            let at = bucket(nanos);
            assert!(last.is_none_or(|last| at == last || at == last + 1), "no gap at {nanos}");
            last = Some(at);
        }
    }

    #[test]
    fn percentiles_are_of_what_was_added() {
        let mut times = Histogram::new();
        assert_eq!(times.percentile(50), None);
        (1..=100).for_each(|micros| times.add(micros * 1_000));
        for percent in [1, 50, 95, 99] {
            let found = times.percentile(percent).unwrap();
            let exact = percent * 1_000;
            assert!(found >= exact && found <= exact + exact / PARTS, "p{percent}: {found}");
        }
        assert_eq!(times.percentile(100), Some(100_000));
        assert_eq!((times.total(), times.longest()), (100, 100_000));
    }
}
