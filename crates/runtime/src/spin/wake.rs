//! What waking a thread costs on this machine: from a microsecond to a hundred, as its processors
//! and whoever shares them decide.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time;

use rustix::event::{EventfdFlags, eventfd};
use stdx::Duration;

use crate::clock::Clock;
use crate::poller::{Interest, Poller};

/// Measures the time from waking a thread that sleeps in a poller until it runs: the median of
/// some tries, within some milliseconds. A machine that is too busy to tell gets the usual time.
pub(crate) fn measure(clock: Clock) -> io::Result<Duration> {
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (woken, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (its_wake, its_woken, its_stop) = (wake.clone(), woken.clone(), stop.clone());
    let sleeper = thread::Builder::new().name("wake-cost".into()).spawn(move || {
        let mut poller = Poller::new()?;
        poller.add(&*its_wake, 0, Interest { read: true, write: false })?;
        while !its_stop.load(Ordering::SeqCst) {
            poller.wait(Some(PATIENCE))?;
            let now = clock.now().as_nanos();
            let _ = rustix::io::read(&*its_wake, &mut [0u8; 8]);
            its_woken.store(now, Ordering::SeqCst);
        }
        Ok::<(), io::Error>(())
    })?;
    let mut samples = Vec::new();
    let began = clock.now();
    while samples.len() < SAMPLES && clock.now().since(began) < TIME_MAX {
        // Long enough for it to be asleep.
        thread::sleep(PAUSE);
        woken.store(0, Ordering::SeqCst);
        let before = clock.now();
        let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
        while woken.load(Ordering::SeqCst) == 0 && clock.now().since(before) < SAMPLE_MAX {
            thread::yield_now();
        }
        let after = woken.load(Ordering::SeqCst);
        if after > before.as_nanos() {
            samples.push(after - before.as_nanos());
        }
    }
    stop.store(true, Ordering::SeqCst);
    let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
    sleeper.join().map_err(|_| io::Error::other("the thread that was to be woken has ended"))??;
    Ok(median(samples).unwrap_or(USUAL))
}

fn median(mut samples: Vec<u64>) -> Option<Duration> {
    samples.sort_unstable();
    let enough = samples.len() >= SAMPLES / 4;
    enough.then(|| Duration::from_nanos(samples[samples.len() / 2]))
}

const SAMPLES: usize = 32;
/// Between two tries.
const PAUSE: time::Duration = time::Duration::from_micros(50);
/// A try that takes longer says something about the load, not about waking.
const SAMPLE_MAX: Duration = Duration::from_micros(300);
/// For all of them.
const TIME_MAX: Duration = Duration::from_millis(20);
/// How long the sleeper sleeps if nobody wakes it.
const PATIENCE: Duration = Duration::from_millis(100);
/// Where it cannot be measured.
const USUAL: Duration = Duration::from_micros(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_takes_some_time() {
        let cost = measure(Clock::start()).unwrap();
        assert!(cost > Duration::ZERO && cost <= SAMPLE_MAX, "{cost:?}");
    }

    #[test]
    fn the_middle_of_enough() {
        assert_eq!(median(vec![9; 3]), None);
        let samples = vec![5, 1, 900, 4, 4, 3, 2, 6];
        assert_eq!(median(samples), Some(Duration::from_nanos(4)));
    }
}
