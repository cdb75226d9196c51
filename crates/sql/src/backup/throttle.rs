//! How fast a backup or a restore may be.
//!
//! # Guarantees
//! Over any span, no more bytes are let through than the rate and [`BURST`] together permit. What
//! waits notices within [`LOOK`] that its job is to end.
//! # Not here
//! That work rests while clients wait (`Kernel::breathe`, and the schedule of the data nodes).

use sql_expression::SqlError;
use stdx::{Duration, Instant};

use crate::backup_jobs::OwnJob;
use crate::kernel::Kernel;

/// How much of its rate a job may make up for that it has not used.
const BURST: Duration = Duration::from_millis(200);
/// How often what waits looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);
const NANOS: u128 = 1_000_000_000;

/// The rate of a job.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Bytes in a second.
    rate: Option<u64>,
    /// From when on more may pass.
    next: Option<Instant>,
}

impl Throttle {
    /// At most so many bytes in a second; 0 and none for no limit.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.filter(|rate| *rate > 0), next: None }
    }

    /// Takes note of bytes that pass, and tells from when on others may.
    fn pass(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let rate = self.rate?;
        let nanos = u128::from(bytes) * NANOS / u128::from(rate);
        let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let behind = self.next.map_or(Duration::ZERO, |next| now.since(next).min(BURST));
        let from = self.next.filter(|next| *next > now);
        let next = match from {
            Some(next) => next + takes,
            // What was not used is made up for, within bounds.
            None => now + Duration::from_nanos(takes.as_nanos().saturating_sub(behind.as_nanos())),
        };
        self.next = Some(next);
        Some(next)
    }

    /// Lets bytes pass, and waits as long as they take.
    ///
    /// # Errors
    /// 1317 when the job is to end, and what interrupts the statement.
    pub(super) async fn pace(
        &mut self,
        kernel: &Kernel,
        job: &OwnJob,
        bytes: u64,
    ) -> Result<(), SqlError> {
        let Some(until) = self.pass(bytes, kernel.now()) else { return Ok(()) };
        loop {
            let left = until.since(kernel.now());
            if left == Duration::ZERO {
                return Ok(());
            }
            kernel.sleep(left.min(LOOK)).await?;
            job.tell(|_| ())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_passes_than_the_rate_permits() {
        let (rate, mut now) = (1_000_000, Instant::ZERO + Duration::from_secs(5));
        let mut throttle = Throttle::new(Some(rate));
        let (began, mut passed) = (now, 0);
        for round in 0..1_000u64 {
            // Some rounds are slow, a few very slow.
            now = now + Duration::from_millis(round % 3 + u64::from(round % 100 == 0) * 5_000);
            let bytes = 10_000 + round;
            let until = throttle.pass(bytes, now).unwrap();
            now = now.max(until);
            passed += bytes;
            let may = (now.since(began) + BURST).as_nanos() / 1_000;
            assert!(
                passed <= may,
                "{passed} bytes after {} µs",
                now.since(began).as_nanos() / 1_000
            );
        }
        // Without the long pauses it is as fast as it may be.
        let (fast, begun) = (now, throttle.next.unwrap());
        for _ in 0..100 {
            now = throttle.pass(10_000, now).unwrap();
        }
        assert_eq!(now.since(fast.max(begun)), Duration::from_secs(1));
        assert_eq!(Throttle::new(Some(0)).pass(u64::MAX, now), None);
        let slow = Throttle::new(Some(1)).pass(u64::MAX, now);
        assert!(slow.is_some());
    }
}
