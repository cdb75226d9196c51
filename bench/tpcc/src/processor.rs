//! How long processes have run, as `/proc` tells it.
//!
//! # Owns
//! Finding a server's processes by name, and their CPU time, user and system.

use std::fs;

/// The unit of times in `/proc/PID/stat`: Linux's USER_HZ, the same on all its architectures of
/// today, whatever the kernel's own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processes of a name, as `ps -C` finds them.
pub(crate) fn named(name: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // The kernel keeps 15 bytes of a name.
    let short = &name.as_bytes()[..name.len().min(15)];
    pids.filter(|pid| {
        fs::read(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_ascii_end() == short)
    })
    .collect()
}

/// Seconds that the processes have run together; none when one of them is not there.
pub(crate) fn seconds(pids: &[u32]) -> Option<f64> {
    let ticks: Option<Vec<u64>> = pids
        .iter()
        .map(|pid| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect();
    Some(ticks?.iter().sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// User and system time of a process. Its name, in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 99";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(seconds(&[std::process::id()]).is_some());
        assert_eq!(seconds(&[u32::MAX]), None);
    }
}
