//! Missing batteries: small deterministic building blocks that know nothing of this project.
//!
//! # Owns
//! Time values, days of the calendar, the pseudo-random generator, pools with typed handles, ring
//! buffers, hash maps with a fixed order, maps whose copies share their entries, lists of mostly
//! one element, long lists in chunks.
//! # Not here
//! Anything with a clock, a thread, a file or entropy: see `runtime`.

pub mod calendar;
mod chunked;
mod few;
mod map;
mod prng;
mod ring;
mod shared_map;
mod time;

pub use chunked::Chunked;
pub use few::Few;
pub use map::{FixedHasher, HashMap, HashSet};
pub use prng::Prng;
pub use ring::RingBuffer;
pub use shared_map::{Change, SharedMap};
pub use time::{Duration, Instant};
