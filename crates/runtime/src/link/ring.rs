//! Memory that two processes of a host share: a ring of bytes for each direction of a connection.
//!
//! # Owns
//! The memory, from its creation to its unmapping; both ends of both rings; the flags by which one
//! end says that it sleeps, or waits for room. A ring carries pieces: a word with a length in
//! bytes, and that many bytes in whole words. Positions count words and only ever grow.
//! # Guarantees
//! 1. What is written on one side is read on the other, once and in order, while both keep the
//!    rules. One writer and one reader for each ring.
//! 2. The peer may write anything at any time. Each word of it is read once, as an atomic, and is
//!    compared with what this side knows before it is used; bytes are copied out before anybody
//!    looks at them. Rules that are broken are [`Broken::Corrupt`].
//! 3. An access cannot fail: the memory can neither shrink nor lose a page, by seals that this side
//!    has seen, and all of it is allocated before it is used.
//! 4. Nobody sleeps beside bytes, and nobody waits beside room.
//! # Why no wake-up is lost
//! There are two flags in each ring: its reader sleeps, its writer waits for room. Each flag
//! follows the same rule. Its owner stores 1, passes a sequentially consistent fence, and loads the
//! peer's position. The peer stores its position, passes such a fence, and loads the flag. All such
//! fences have one order. If the owner's fence is the earlier one, then the peer finds the flag, or
//! a later value of it. If the peer's fence is the earlier one, then the owner finds the position.
//! So at least one of the two finds what the other has stored; without one of the fences both could
//! miss it, as a CPU holds stores back while it loads.
//!
//! A flag is taken back by an exchange on either side. If the peer's exchange finds 1, it sends a
//! wake-up. If the owner's exchange finds 0, the peer has sent a wake-up or is about to, and the
//! owner counts it. A flag that is raised again between the peer's load and its exchange gets a
//! wake-up that nobody needs, never too few. An exchange that finds the flag lowered in between
//! precedes the next raising, and thus the owner's next look.
//!
//! Wake-ups lie unread on the socket, and are thrown away when there are many. One that is thrown
//! away has told nothing yet: the system forgets an edge whose bytes are gone. So [`Rings::doze`]
//! looks at everything a wake-up may have told of: at bytes, and at room if this side waits for
//! room. `tests/model.rs` tries all interleavings of both sides, with stores that are held back,
//! and shows that each of these parts is needed.
//! # Not here
//! The socket that carries wake-ups and tells of the peer's end (`socket`), who offers memory to
//! whom (`keeper`).
#![expect(unsafe_code, reason = "memory is mapped; decision 0071 has the argument")]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::Broken;

/// This side's ends of the rings of a connection.
#[derive(Debug)]
pub(crate) struct Rings {
    memory: Memory,
    outward: Ring,
    inward: Ring,
    /// Words that this side has written, and that the peer is known to have taken of them.
    written: u64,
    gone: u64,
    /// Words that this side has taken.
    taken: u64,
    /// Wake-ups that the peer has sent, or is about to.
    wakes: u32,
    /// It is to be told when there is room: it knows of none for the smallest piece.
    starves: bool,
}

/// Where the parts of a ring are in the memory, in words.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// What its writer has written.
    written: usize,
    /// What its reader has taken.
    taken: usize,
    /// Its reader sleeps.
    sleeps: usize,
    /// Its writer waits for room.
    starves: usize,
    /// The first word of its content.
    content: usize,
}

impl Ring {
    /// The ring of a direction: 0 is what the side says that has created the memory. Words that
    /// different sides write are far enough from each other for no cache line to hold two.
    const fn of(direction: usize) -> Ring {
        let at = LINE * (1 + 4 * direction);
        Ring {
            written: at,
            taken: at + LINE,
            sleeps: at + 2 * LINE,
            starves: at + 3 * LINE,
            content: HEADER_WORDS + direction * RING_WORDS,
        }
    }
}

impl Rings {
    /// Creates memory for a connection: this side's ends, and what the peer is to be given for
    /// [`Rings::accept`].
    ///
    /// # Errors
    /// When the system has no memory or no descriptor for it, or does not know it.
    pub(crate) fn create() -> io::Result<(Rings, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
            // Linux before 6.3.
            Err(Errno::INVAL) => memfd_create(NAME, flags)?,
            created => created?,
        };
        ftruncate(&file, SIZE)?;
        fallocate(&file, FallocateFlags::empty(), 0, SIZE)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
        let rings = Rings::over(Memory::map(&file)?, [0, 1]);
        rings.memory.words()[0].store(LAYOUT, Ordering::Relaxed);
        Ok((rings, file))
    }

    /// Takes the memory that a peer has created.
    ///
    /// # Errors
    /// When it has another form, or the peer could take it away, or the system has no room to map
    /// it.
    pub(crate) fn accept(file: &OwnedFd) -> io::Result<Rings> {
        let fixed = SealFlags::SHRINK | SealFlags::GROW;
        if !fcntl_get_seals(file)?.contains(fixed) || fstat(file)?.st_size as u64 != SIZE {
            return Err(io::Error::other("the peer offers memory of another kind"));
        }
        let memory = Memory::map(file)?;
        settle(file)?;
        if memory.words()[0].load(Ordering::Relaxed) != LAYOUT {
            return Err(io::Error::other("the peer offers memory with another layout"));
        }
        Ok(Rings::over(memory, [1, 0]))
    }

    fn over(memory: Memory, [outward, inward]: [usize; 2]) -> Rings {
        let (outward, inward) = (Ring::of(outward), Ring::of(inward));
        let (written, gone, taken) = (0, 0, 0);
        Rings { memory, outward, inward, written, gone, taken, wakes: 0, starves: false }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.words()[at]
    }

    /// Bytes that the memory takes.
    pub(crate) const fn size() -> u64 {
        SIZE
    }

    /// Writes as much as there is room for; how many bytes that was.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Broken> {
        let mut left = bytes;
        while !left.is_empty() {
            let mut room = RING_WORDS as u64 - (self.written - self.gone);
            if room < PIECE_MIN && self.look_for_room()? {
                room = RING_WORDS as u64 - (self.written - self.gone);
            }
            if room < PIECE_MIN {
                break;
            }
            let len = left.len().min(PIECE_MAX).min(8 * (room as usize - 1));
            let (piece, rest) = left.split_at(len);
            self.put(piece);
            left = rest;
        }
        let count = bytes.len() - left.len();
        if count > 0 {
            self.word(self.outward.written).store(self.written, Ordering::Release);
        }
        Ok(count)
    }

    /// Writes a piece for which there is room.
    fn put(&mut self, piece: &[u8]) {
        let content = &self.memory.words()[self.outward.content..][..RING_WORDS];
        let mut at = self.written as usize;
        let mut put = |word: u64| {
            content[at % RING_WORDS].store(word, Ordering::Relaxed);
            at += 1;
        };
        put(piece.len() as u64);
        let (words, rest) = piece.as_chunks::<8>();
        words.iter().for_each(|word| put(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            put(u64::from_le_bytes(last));
        }
        self.written += words_of(piece.len());
    }

    /// Looks how much the peer has taken; whether there is room for a piece. A writer that has
    /// waited for room and finds some waits no more.
    pub(super) fn look_for_room(&mut self) -> Result<bool, Broken> {
        let gone = self.word(self.outward.taken).load(Ordering::Acquire);
        // It has taken no less than before, and no more than there was.
        if gone < self.gone || gone > self.written {
            return Err(Broken::Corrupt);
        }
        self.gone = gone;
        let has_room = RING_WORDS as u64 - (self.written - gone) >= PIECE_MIN;
        if has_room && std::mem::take(&mut self.starves) {
            self.lower(self.outward.starves);
        }
        Ok(has_room)
    }

    /// There is no room: has the peer say when there is. False if there is some by now.
    pub(super) fn wait_for_room(&mut self) -> Result<bool, Broken> {
        let before = self.word(self.outward.starves).swap(1, Ordering::SeqCst);
        if std::mem::replace(&mut self.starves, true) && before == 0 {
            self.wakes += 1;
        }
        fence(Ordering::SeqCst);
        Ok(!self.look_for_room()?)
    }

    /// Takes what has come, as much as the buffer holds; how many bytes that was.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        let mut there = self.arrived()?;
        let content = &self.memory.words()[self.inward.content..][..RING_WORDS];
        let (mut at, mut left) = (self.taken, &mut buffer[..]);
        while there > 0 {
            let len = content[at as usize % RING_WORDS].load(Ordering::Relaxed);
            if len == 0 || len > PIECE_MAX as u64 || words_of(len as usize) > there {
                return Err(Broken::Corrupt);
            }
            if left.len() < len as usize {
                break;
            }
            let (piece, rest) = std::mem::take(&mut left).split_at_mut(len as usize);
            let word = |at: usize| content[at % RING_WORDS].load(Ordering::Relaxed).to_le_bytes();
            let (words, last) = piece.as_chunks_mut::<8>();
            let first = at as usize + 1;
            for (to, from) in words.iter_mut().zip(first..) {
                *to = word(from);
            }
            last.copy_from_slice(&word(first + words.len())[..last.len()]);
            at += words_of(len as usize);
            there -= words_of(len as usize);
            left = rest;
        }
        let rest = left.len();
        if at != self.taken {
            self.taken = at;
            self.word(self.inward.taken).store(at, Ordering::Release);
        }
        Ok(buffer.len() - rest)
    }

    /// Words that have come and were not taken.
    fn arrived(&self) -> Result<u64, Broken> {
        let written = self.word(self.inward.written).load(Ordering::Acquire);
        let there = written.checked_sub(self.taken);
        there.filter(|there| *there <= RING_WORDS as u64).ok_or(Broken::Corrupt)
    }

    /// Whether something is to be read; a load from memory. What breaks the rules is to be read.
    pub(super) fn has_news(&self) -> bool {
        self.word(self.inward.written).load(Ordering::Acquire) != self.taken
    }

    /// This side is about to sleep: from here on the peer wakes it when it has written. False if it
    /// must not sleep, because something has come, or there is the room that it waits for. To be
    /// followed by [`Rings::rise`] either way, and by a look at both if it is false.
    pub(super) fn doze(&mut self) -> bool {
        self.word(self.inward.sleeps).store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Rules that are broken are found by whoever looks next.
        let finds_room = self.starves && self.look_for_room().unwrap_or(true);
        !finds_room && !self.has_news()
    }

    /// This side is awake again.
    pub(super) fn rise(&mut self) {
        self.lower(self.inward.sleeps);
    }

    /// Takes a flag back; if the peer has found it set, a wake-up comes or has come.
    fn lower(&mut self, flag: usize) {
        if self.word(flag).swap(0, Ordering::SeqCst) == 0 {
            self.wakes += 1;
        }
    }

    /// Whether the peer is to be woken, after [`Rings::write`], because it sleeps.
    pub(super) fn peer_sleeps(&self) -> bool {
        self.finds(self.outward.sleeps)
    }

    /// Whether the peer is to be woken, after [`Rings::read`], because it has waited for room.
    pub(super) fn peer_starves(&self) -> bool {
        self.finds(self.inward.starves)
    }

    /// Whether a flag of the peer is set; it is told so once.
    fn finds(&self, flag: usize) -> bool {
        fence(Ordering::SeqCst);
        let flag = self.word(flag);
        flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::SeqCst) != 0
    }

    /// Claims to have written what cannot be.
    #[cfg(test)]
    pub(super) fn spoil(&self) {
        self.word(self.outward.written).store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether so many wake-ups have come that they have to be taken out of the way, from the
    /// socket. Their number begins anew then.
    pub(super) fn has_many_wakes(&mut self) -> bool {
        let many = self.wakes >= WAKES_MAX;
        if many {
            self.wakes = 0;
        }
        many
    }
}

/// Makes sure that nobody takes a page of the memory away, and that all of it is there. To be done
/// by both sides when both have mapped it: it cannot be mapped for writing any more after that.
pub(super) fn settle(file: &OwnedFd) -> io::Result<()> {
    // Without the first, holes could be made in it.
    let last = SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    if !fcntl_get_seals(file)?.contains(last) {
        fcntl_add_seals(file, last)?;
    }
    // A hole that was made before is filled here, or the memory is refused.
    Ok(fallocate(file, FallocateFlags::empty(), 0, SIZE)?)
}

/// Memory that is mapped, and that another process may write at any time.
#[derive(Debug)]
struct Memory(NonNull<AtomicU64>);

// SAFETY: it is nothing but memory of the process, which is mapped for all threads.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps a file that is as long as it has to be, and whose seals keep it so.
    fn map(file: impl AsFd) -> io::Result<Memory> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Its pages are there: nobody waits for them later.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let at = unsafe { mmap(null_mut(), SIZE as usize, protection, flags, file, 0)? };
        NonNull::new(at.cast()).map(Memory).ok_or_else(|| Errno::NOMEM.into())
    }

    fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the mapping has as many words, begins at a page, and stays until `self` is
        // dropped. Whoever else has mapped it may write to it at any time, which is why its words
        // are atomics; every value of a word is one.
        unsafe { self.0.cast().as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and references to it have ended with `self`.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast::<c_void>(), SIZE as usize) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Words that a piece of so many bytes takes.
const fn words_of(len: usize) -> u64 {
    1 + len.div_ceil(8) as u64
}

/// What it is called in the lists of a process's memory.
const NAME: &str = "nines-link";
/// Bytes of a ring: no less than what a socket of the system holds, and small enough to stay in a
/// CPU's cache.
const RING_WORDS: usize = (128 << 10) / 8;
/// Words of two cache lines: CPUs fetch lines in pairs.
const LINE: usize = 16;
/// A page.
const HEADER_WORDS: usize = 4_096 / 8;
const WORDS: usize = HEADER_WORDS + 2 * RING_WORDS;
const SIZE: u64 = 8 * WORDS as u64;
/// The first word: what memory of this form begins with. Another form has another one.
const LAYOUT: u64 = u64::from_le_bytes(*b"ninesM\x00\x01");
/// Most bytes of a piece.
const PIECE_MAX: usize = 16 << 10;
/// Fewest words of a piece.
const PIECE_MIN: u64 = 2;
/// Wake-ups that may lie unread: the system holds some more than that.
const WAKES_MAX: u32 = 64;

#[cfg(test)]
mod tests;
