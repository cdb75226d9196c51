//! How much waits to be sent to all peers of a process, on all its threads.
//!
//! # Guarantees
//! When there is more than may be, some connection has more than an equal share of the limit, and
//! the thread whose it is finds that out when it next sends there. So the sum stays near the limit
//! although no thread looks at the connections of another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sum, and how many connections share it.
#[derive(Debug)]
pub(crate) struct SendBuffers {
    limit: usize,
    bytes: AtomicUsize,
    connections: AtomicUsize,
}

impl SendBuffers {
    /// Nothing waits; `limit` bytes may.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), connections: AtomicUsize::new(0) }
    }

    /// A connection more.
    pub(super) fn waiting(buffers: &Arc<SendBuffers>) -> Waiting {
        buffers.connections.fetch_add(1, Ordering::Relaxed);
        Waiting { buffers: buffers.clone(), bytes: 0 }
    }
}

/// What waits on one connection.
#[derive(Debug)]
pub(super) struct Waiting {
    buffers: Arc<SendBuffers>,
    bytes: usize,
}

impl Waiting {
    /// So much waits now.
    pub(super) fn set(&mut self, bytes: usize) {
        // Most connections never have anything that waits.
        if bytes > self.bytes {
            self.buffers.bytes.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.buffers.bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Whether there is too much in all, and here at least an equal share of the limit.
    pub(super) fn exceeds_share(&self) -> bool {
        let SendBuffers { limit, bytes, connections } = &*self.buffers;
        let share = limit / connections.load(Ordering::Relaxed).max(1);
        bytes.load(Ordering::Relaxed) > *limit && self.bytes >= share
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.set(0);
        self.buffers.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_is_found() {
        let buffers = Arc::new(SendBuffers::new(100));
        let mut all: Vec<Waiting> = (0..4).map(|_| SendBuffers::waiting(&buffers)).collect();
        for (waiting, bytes) in all.iter_mut().zip([60, 30, 10, 0]) {
            waiting.set(bytes);
        }
        assert!(all.iter().all(|waiting| !waiting.exceeds_share()), "as much as may be");
        all[3].set(1);
        let exceeding: Vec<bool> = all.iter().map(Waiting::exceeds_share).collect();
        assert_eq!(exceeding, [true, true, false, false]);
        all.remove(0);
        assert!(all.iter().all(|waiting| !waiting.exceeds_share()));
        drop(all);
        let left =
            (buffers.bytes.load(Ordering::Relaxed), buffers.connections.load(Ordering::Relaxed));
        assert_eq!(left, (0, 0));
    }

    #[test]
    fn a_sum_over_the_limit_has_someone_to_blame() {
        let buffers = Arc::new(SendBuffers::new(1_000));
        let mut all: Vec<Waiting> = (0..7).map(|_| SendBuffers::waiting(&buffers)).collect();
        all.iter_mut().for_each(|waiting| waiting.set(143));
        assert!(all.iter().all(Waiting::exceeds_share));
    }
}
