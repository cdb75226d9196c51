//! Missing batteries: small deterministic building blocks that know nothing of this project.
//!
//! # Owns
//! Time values, the pseudo-random generator, pools with typed handles, ring buffers, fixed-hash maps.
//! # Not here
//! Anything with a clock, a thread, a file or entropy: see `runtime`.

mod time;
mod prng;
mod pool;
mod ring;
mod map;

pub use map::{FixedHasher, HashMap, HashSet};
pub use pool::{Handle, Pool, PoolFull};
pub use prng::Prng;
pub use ring::RingBuffer;
pub use time::{Duration, Instant};
