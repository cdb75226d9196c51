//! Keeps the memory of a process out of swap.

use std::fs;
use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Which memory is kept in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryLock {
    /// What is used, as soon as it is used for the first time.
    AsUsed,
    /// Everything the process takes, used or not: no page is missing later.
    AsTaken,
}

/// Locks the memory of the process, now and in future.
///
/// # Errors
/// When the process may not: a text for the operator, with the limit and the remedies.
pub fn lock_memory(which: MemoryLock) -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut limit = getrlimit(Resource::Memlock);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if setrlimit(Resource::Memlock, raised).is_ok() {
            limit = getrlimit(Resource::Memlock);
        }
    }
    check(limit.current, may_lock(&status))?;
    let both = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    let flags = match which {
        MemoryLock::AsUsed => both | MlockAllFlags::ONFAULT,
        MemoryLock::AsTaken => both,
    };
    mlockall(flags)
        .map_err(|errno| format!("the system does not lock the memory: {}", io::Error::from(errno)))
}

/// Whether a process with this limit may lock all that it will ever take. With any limit an
/// allocation would fail some day, and end the node.
fn check(limit: Option<u64>, privileged: bool) -> Result<(), String> {
    let Some(limit) = limit.filter(|_| !privileged) else { return Ok(()) };
    Err(format!(
        "this process may lock {} KB of memory only (RLIMIT_MEMLOCK), and has to lock all it will \
         take: lift the limit (`ulimit -l unlimited`, LimitMEMLOCK=infinity in systemd, --ulimit \
         memlock=-1 in Docker), give it the capability CAP_IPC_LOCK, or set \
         LockPagesInMainMemory=0",
        limit >> 10
    ))
}

/// Whether `/proc/self/status` shows the capability that knows no limit.
fn may_lock(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}

/// The number of the capability, in the kernel's list.
const CAP_IPC_LOCK: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_refused_unless_the_process_is_above_it() {
        assert_eq!((check(None, false), check(Some(65_536), true)), (Ok(()), Ok(())));
        let why = check(Some(8 << 20), false).unwrap_err();
        assert!(why.contains("8192 KB") && why.contains("RLIMIT_MEMLOCK"), "{why}");
        assert!(why.contains("ulimit -l unlimited") && why.contains("CAP_IPC_LOCK"), "{why}");
    }

    #[test]
    fn the_capability_is_bit_14() {
        assert!(may_lock("Name:\tnines\nCapEff:\t0000000000004000\n"));
        assert!(may_lock("CapEff:\t000001ffffffffff\n"));
        for without in ["", "CapEff:\t0000000000000000\n", "CapEff:\t000001ffffffbfff", "CapEff: x"]
        {
            assert!(!may_lock(without), "{without}");
        }
    }
}
