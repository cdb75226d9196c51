//! The CPUs that this process may really use: by its affinity mask, and by the quota of its cgroup.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use cluster_config::CpuSet;

/// CPUs of the machine, as this process sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// Those that are there, ascending.
    pub(crate) present: Vec<u16>,
    /// Those that the process may run on, ascending.
    pub(crate) allowed: Vec<u16>,
    /// How many CPUs' time it may use, in hundredths; none for all.
    pub(crate) quota: Option<u64>,
}

impl Cpus {
    /// Asks the system.
    pub(crate) fn of_process() -> Cpus {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let some = || (0..count as u16).collect();
        let allowed = runtime::allowed_cpus().ok().filter(|cpus| !cpus.is_empty());
        let allowed: Vec<u16> = allowed.unwrap_or_else(some);
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let online = online.and_then(|text| CpuSet::parse(text.trim()).ok());
        // Sandboxes may show less than they let a process use.
        let online = online.iter().flat_map(CpuSet::iter);
        let present: BTreeSet<u16> = online.chain(allowed.iter().copied()).collect();
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let quota = quota(Path::new("/sys/fs/cgroup"), &membership);
        Cpus { present: present.into_iter().collect(), allowed, quota }
    }

    /// How many threads can run at a time: whole CPUs, one at least.
    pub(crate) fn usable(&self) -> usize {
        let quota = self.quota.map_or(usize::MAX, |quota| (quota / 100) as usize);
        self.allowed.len().min(quota).max(1)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.allowed.len();
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} CPU{plural} may be used ({}", cpu_list(&self.allowed))?;
        if self.present != self.allowed {
            write!(f, " of {}", cpu_list(&self.present))?;
        }
        f.write_str(")")?;
        match self.quota {
            Some(quota) if quota < count as u64 * 100 => {
                let (whole, part) = (quota / 100, quota % 100);
                write!(f, ", for the time of {whole}.{part:02} (quota of the cgroup)")
            }
            _ => Ok(()),
        }
    }
}

/// CPUs as `0-3,8`.
pub(crate) fn cpu_list(cpus: &[u16]) -> String {
    let list: Vec<String> = cpus.iter().map(u16::to_string).collect();
    CpuSet::parse(&list.join(",")).map_or_else(|_| "none".to_string(), |set| set.to_string())
}

/// The smallest quota of the groups that the process is in, in hundredths of a CPU. `membership` is
/// what `/proc/self/cgroup` says; both versions may be mounted beside each other.
fn quota(mount: &Path, membership: &str) -> Option<u64> {
    let mut quotas = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        let mounts = if second { vec!["", "unified"] } else { vec!["cpu", controllers] };
        for base in mounts {
            let base = mount.join(base);
            // A limit of any group above counts too. The path may be that outside the container,
            // of which only the top is seen here.
            for group in Path::new(path).ancestors() {
                let group = base.join(group.strip_prefix("/").unwrap_or(group));
                quotas.extend(if second { of_second(&group) } else { of_first(&group) });
            }
        }
    }
    quotas.into_iter().min()
}

/// `cpu.max`: microseconds in each period, or `max`.
fn of_second(group: &Path) -> Option<u64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let mut fields = text.split_whitespace();
    hundredths(fields.next()?, fields.next()?)
}

/// Two files; a quota of -1 is none.
fn of_first(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(PathBuf::from(group).join(name)).ok();
    hundredths(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

fn hundredths(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(100)?.checked_div(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that goes with its test.
    struct Mount(PathBuf);

    impl Mount {
        fn new(name: &str, files: &[(&str, &str)]) -> Mount {
            let name = format!("nines-cgroup-{}-{name}", std::process::id());
            let mount = Mount(std::env::temp_dir().join(name));
            for (file, text) in files {
                let path = mount.0.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            mount
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn quotas_of_the_second_version() {
        let files =
            [("cpu.max", "max 100000\n"), ("a/cpu.max", "250000 100000"), ("a/b/cpu.max", "max 1")];
        let mount = Mount::new("second", &files);
        assert_eq!(quota(&mount.0, "0::/a/b\n"), Some(250));
        assert_eq!(quota(&mount.0, "0::/\n"), None);
        // Seen from inside a container the path leads nowhere, and its top is the mount.
        let inside = Mount::new("inside", &[("cpu.max", "50000 100000")]);
        assert_eq!(quota(&inside.0, "0::/docker/123\n"), Some(50));
    }

    #[test]
    fn quotas_of_the_first_version() {
        let files = [
            ("cpu,cpuacct/x/cpu.cfs_quota_us", "150000\n"),
            ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("unified/cpu.max", "100000 100000"),
        ];
        let mount = Mount::new("first", &files);
        let membership = "5:memory:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/x\n";
        assert_eq!(quota(&mount.0, membership), Some(150));
        assert_eq!(quota(&mount.0, &format!("{membership}0::/\n")), Some(100), "both count");
        assert_eq!(quota(&mount.0, "nonsense\n:\n4:cpuset:/x\n"), None);
    }

    #[test]
    fn whole_cpus_count() {
        let cpus = |quota| Cpus { present: vec![0, 1, 2], allowed: vec![0, 2], quota };
        assert_eq!([None, Some(300), Some(199), Some(20)].map(|q| cpus(q).usable()), [2, 2, 1, 1]);
        assert_eq!(cpus(None).to_string(), "2 CPUs may be used (0,2 of 0-2)");
        assert_eq!(hundredths("1", "0"), None);
        assert_eq!(cpu_list(&[]), "none");
    }
}
