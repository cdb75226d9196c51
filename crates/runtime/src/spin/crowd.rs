//! Whether threads of the machine wait for a CPU: then one that spins takes it from somebody, and
//! so does one that has long work.
//!
//! # Owns
//! The kernel's account of it: pressure stall information, or where there is none, the time for
//! which this thread itself was ready and did not run.

use std::fs::File;
use std::os::unix::fs::FileExt;

use stdx::{Duration, Instant};

/// A thread's view of how crowded the machine is. To be made on the thread.
#[derive(Debug)]
pub(crate) struct Crowd {
    source: Option<Source>,
    /// When the account was read last, and what it said, in nanoseconds.
    last: Option<(Instant, u64)>,
}

#[derive(Debug)]
enum Source {
    /// Of all threads of the machine.
    Pressure(File),
    /// Of this thread.
    Delay(File),
}

impl Crowd {
    /// Finds the best account there is.
    pub(crate) fn open() -> Self {
        let usable = |source: Source| source.read().map(|_| source);
        let pressure = File::open("/proc/pressure/cpu").ok().map(Source::Pressure);
        let source = pressure.and_then(usable).or_else(|| {
            let delay = File::open("/proc/thread-self/schedstat").ok().map(Source::Delay);
            delay.and_then(usable)
        });
        Self { source, last: None }
    }

    /// The account of the calling thread alone: on a large machine others wait for other CPUs.
    pub(crate) fn of_thread() -> Self {
        let delay = File::open("/proc/thread-self/schedstat").ok().map(Source::Delay);
        Self { source: delay.filter(|source| source.read().is_some()), last: None }
    }

    /// The share of time, in percent, in which threads waited since the last call; none if that is
    /// long ago, or nothing is known. Costs a system call.
    pub(crate) fn share(&mut self, now: Instant) -> Option<u64> {
        let waited = self.source.as_ref()?.read()?;
        let (then, before) = self.last.replace((now, waited))?;
        share(now.since(then), waited.saturating_sub(before))
    }
}

impl Source {
    fn read(&self) -> Option<u64> {
        let mut bytes = [0; 256];
        let (file, parse): (_, fn(&str) -> Option<u64>) = match self {
            Source::Pressure(file) => (file, pressure),
            Source::Delay(file) => (file, delay),
        };
        let count = file.read_at(&mut bytes, 0).ok()?;
        parse(std::str::from_utf8(&bytes[..count]).ok()?)
    }
}

/// Nanoseconds of `some …total=…`, which is in microseconds.
fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let (_, total) = some.rsplit_once("total=")?;
    total.trim().parse::<u64>().ok()?.checked_mul(1_000)
}

/// The second of three numbers, in nanoseconds.
fn delay(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

fn share(passed: Duration, waited: u64) -> Option<u64> {
    let recent = passed > Duration::ZERO && passed <= RECENT;
    recent.then(|| (u128::from(waited) * 100 / u128::from(passed.as_nanos())) as u64)
}

/// What is older says nothing about now.
const RECENT: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes() {
        let text = "some avg10=1.20 avg60=0.43 avg300=1.15 total=19699206\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure(text), Some(19_699_206_000));
        assert_eq!(delay("1047 22 3\n"), Some(22));
        for wrong in ["", "some", "full total=1", "some total=x", "some total=99999999999999999999"]
        {
            assert_eq!(pressure(wrong), None, "{wrong}");
        }
        assert_eq!((delay(""), delay("1"), delay("1 x 3")), (None, None, None));
    }

    #[test]
    fn only_what_is_recent_counts() {
        let millis = Duration::from_millis;
        assert_eq!(share(millis(50), 5_000_000), Some(10));
        assert_eq!(share(millis(501), 5_000_000), None);
        assert_eq!(share(Duration::ZERO, 1), None);
        let mut crowd = Crowd::open();
        assert_eq!(crowd.share(Instant::from_nanos(1_000)), None, "the first look has no before");
    }
}
