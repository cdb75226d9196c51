//! What the machine gives: CPUs, memory, its name, its time zone.

mod cpus;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use runtime::since_1970;
use sqltype::{DateTime, TimeZone};

pub(crate) use cpus::{Cpus, cpu_list};

/// Bytes of memory this process may use: the machine's, or the smaller part a container has.
pub(crate) fn memory() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse().ok());
    [machine, group].into_iter().flatten().min().unwrap_or(MEMORY_UNKNOWN)
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes << 10)
}

/// The time since this was asked first.
pub(crate) fn elapsed() -> stdx::Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let elapsed = FIRST.get_or_init(Instant::now).elapsed();
    stdx::Duration::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

/// The name of the host.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_string()
}

/// Minutes by which the host's local time is ahead of UTC now.
pub(crate) fn utc_offset() -> i32 {
    let seconds = i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX);
    let zone = std::env::var("TZ").ok().or_else(|| {
        let link = fs::read_link("/etc/localtime").ok()?;
        zone_of(&link).map(str::to_string)
    });
    let zone = zone.and_then(|name| TimeZone::parse(name.trim_start_matches(':')));
    zone.map_or(0, |zone| zone.offset_at(seconds) / 60)
}

/// The time in UTC, to the millisecond, as a line of a log begins with it.
pub(crate) fn timestamp() -> String {
    let micros = i64::try_from(since_1970().as_micros()).unwrap_or(i64::MAX);
    DateTime::from_unix_micros(micros).to_text(3)
}

/// The zone's name in a path of the system's database.
fn zone_of(path: &Path) -> Option<&str> {
    path.to_str()?.split_once("zoneinfo/").map(|(_, name)| name)
}

/// Where the system does not say.
const MEMORY_UNKNOWN: u64 = 4 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_say() {
        assert_eq!(total_of("MemTotal:       24586448 kB\nMemFree: 1 kB\n"), Some(25_176_522_752));
        assert_eq!(total_of("MemFree: 1 kB\n"), None);
        assert_eq!(zone_of(Path::new("/usr/share/zoneinfo/Europe/Rome")), Some("Europe/Rome"));
        assert_eq!(zone_of(Path::new("../usr/share/zoneinfo/UTC")), Some("UTC"));
        assert_eq!(zone_of(Path::new("/etc/somewhere")), None);
    }

    #[test]
    fn a_machine_has_something() {
        assert!(Cpus::of_process().usable() > 0 && memory() > 0);
    }
}
