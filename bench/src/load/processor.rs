//! How long processes have run, as `/proc` tells it.

use std::fs;

/// The unit of times in `/proc/PID/stat`: Linux's USER_HZ, the same on all its architectures of
/// today, whatever the kernel's own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that processes have run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// In the program.
    pub user: f64,
    /// In the system.
    pub system: f64,
}

impl Seconds {
    /// What the processes have run together by now.
    pub(crate) fn of(pids: &[u32]) -> Result<Seconds, String> {
        let mut all = Seconds::default();
        for pid in pids {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"))
                .map_err(|error| format!("process {pid}: {error}"))?;
            let (user, system) = ticks(&stat).ok_or_else(|| format!("process {pid}: {stat}"))?;
            all.user += user as f64 / TICKS_PER_SECOND;
            all.system += system as f64 / TICKS_PER_SECOND;
        }
        Ok(all)
    }

    /// Those since `before`.
    pub(crate) fn since(self, before: Seconds) -> Seconds {
        Seconds { user: self.user - before.user, system: self.system - before.system }
    }
}

/// User and system time of a process. Its name, in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0 99";
        assert_eq!(ticks(stat), Some((250, 50)));
        assert_eq!(ticks("7 (a) S 1"), None);
        assert!(Seconds::of(&[std::process::id()]).is_ok());
        assert!(Seconds::of(&[u32::MAX]).is_err());
        let (before, after) =
            (Seconds { user: 1.0, system: 2.0 }, Seconds { user: 4.0, system: 3.0 });
        assert_eq!(after.since(before), Seconds { user: 3.0, system: 1.0 });
    }
}
