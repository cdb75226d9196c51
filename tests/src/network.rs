//! Hosts on this machine: network namespaces that a router joins, and what happens to networks.
//!
//! # Owns
//! [`Network`]: a namespace for each host, with an IPv4 and an IPv6 address and mounts of its own,
//! a router between them, and the faults: messages that vanish one way or both ways, a host that is
//! gone, a slow line, a small disk.
//! # Guarantees
//! 1. Nothing is left behind, also by a test that is killed: namespaces have no names, and end with
//!    the processes in them. One that keeps a namespace ends when its input does, which is a pipe
//!    from the test; what [`Network::command`] starts is killed with the thread that started it.
//! 2. A cut is silent: the router drops what is sent, and nobody is told. Where a host is gone, the
//!    router says that it cannot be reached.
//! # Needs
//! Linux with user, network and mount namespaces, and from Debian iproute2 and util-linux. No
//! privileges where users may make namespaces; [`Network::start`] says what is missing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The two kinds of addresses that a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Of 32 bits.
    V4,
    /// Of 128 bits.
    V6,
}

/// Hosts that a router joins.
pub struct Network {
    /// By number; they go before the router.
    hosts: BTreeMap<u8, Namespace>,
    router: Namespace,
    /// Ways that are cut, each from one host to another.
    cuts: Vec<(u8, u8)>,
    /// Hosts whose line is not as it should be.
    gone: Vec<u8>,
    slow: Vec<u8>,
}

impl Network {
    /// Makes a network of hosts with these numbers, from 1.
    ///
    /// # Errors
    /// What this machine lacks or does not permit.
    pub fn start(hosts: impl IntoIterator<Item = u8>) -> Result<Self, String> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", "--net", "--mount"]);
        let router = Namespace::begin(unshare).map_err(|why| {
            format!(
                "no network namespace can be made here, which takes root or user namespaces that \
                 are permitted (sysctl user.max_user_namespaces): {why}"
            )
        })?;
        router.run("sh", &["-ec", ROUTER])?;
        let (hosts, none) = (hosts.into_iter().collect::<Vec<u8>>(), BTreeMap::new());
        let mut network =
            Self { hosts: none, router, cuts: Vec::new(), gone: Vec::new(), slow: Vec::new() };
        for host in hosts {
            network.add(host)?;
        }
        Ok(network)
    }

    fn add(&mut self, host: u8) -> Result<(), String> {
        let mut unshare = self.router.command("unshare", &["--user"]);
        unshare.args(["--net", "--mount"]);
        let namespace = Namespace::begin(unshare)?;
        let process = namespace.holder.id().to_string();
        let number = host.to_string();
        self.router.run("sh", &["-ec", LINE_OF_ROUTER, "sh", &number, &process])?;
        namespace.run("sh", &["-ec", LINE_OF_HOST, "sh", &number])?;
        self.hosts.insert(host, namespace);
        Ok(())
    }

    /// An address of a host.
    pub fn address(host: u8, family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::new(10, 77, host, 2).into(),
            Family::V6 => Ipv6Addr::new(0xFD77, 0, 0, host.into(), 0, 0, 0, 2).into(),
        }
    }

    /// A program that is to run on a host, as root as far as that host is concerned.
    pub fn command(&self, host: u8, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.hosts[&host].command("setpriv", NAMESPACES);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Nothing that one host sends reaches another any more.
    pub fn cut_one_way(&mut self, from: u8, to: u8) {
        if !self.cuts.contains(&(from, to)) {
            self.rules("add", &[(from, to)]);
            self.cuts.push((from, to));
        }
    }

    /// Nothing passes between the hosts of two sides any more.
    pub fn cut(&mut self, one: &[u8], other: &[u8]) {
        let pairs = one.iter().flat_map(|a| other.iter().flat_map(|b| [(*a, *b), (*b, *a)]));
        let new: Vec<(u8, u8)> = pairs.filter(|way| !self.cuts.contains(way)).collect();
        self.rules("add", &new);
        self.cuts.extend(new);
    }

    /// Nothing passes between these hosts and all others any more.
    pub fn isolate(&mut self, hosts: &[u8]) {
        let others = self.hosts.keys().copied().filter(|host| !hosts.contains(host));
        self.cut(hosts, &others.collect::<Vec<u8>>());
    }

    /// Adds or removes rules of the router.
    fn rules(&self, verb: &str, ways: &[(u8, u8)]) {
        for (family, option) in [(Family::V4, "-4"), (Family::V6, "-6")] {
            let mut lines = String::new();
            for (from, to) in ways {
                let (source, target) = (Self::address(*from, family), Self::address(*to, family));
                lines.push_str(&format!(
                    "rule {verb} pref {} from {source} to {target} blackhole\n",
                    1 + 256 * u32::from(*from) + u32::from(*to)
                ));
            }
            let done = self.router.run_with_input("ip", &[option, "-batch", "-"], &lines);
            done.unwrap_or_else(|why| panic!("{why}"));
        }
    }

    /// The line of a host is pulled out.
    pub fn unplug(&mut self, host: u8) {
        self.line(host, "down");
        self.gone.push(host);
    }

    fn line(&self, host: u8, state: &str) {
        let done = self.router.run("ip", &["link", "set", &format!("h{host}"), state]);
        done.unwrap_or_else(|why| panic!("{why}"));
    }

    /// The line of a host passes so many kilobits a second in each direction, and what has waited
    /// for `delay` is dropped.
    pub fn slow_down(&mut self, host: u8, kilobits: u32, delay: Duration) {
        let (rate, delay) = (format!("{kilobits}kbit"), format!("{}ms", delay.as_millis()));
        let shape = ["root", "tbf", "rate", &rate, "burst", "16kb", "latency", &delay];
        let replace = ["qdisc", "replace", "dev"];
        let line = format!("h{host}");
        for (end, device) in [(&self.router, line.as_str()), (&self.hosts[&host], "lan")] {
            let done = end.run("tc", &[&replace[..], &[device], &shape].concat());
            done.unwrap_or_else(|why| panic!("{why}"));
        }
        self.slow.push(host);
    }

    /// All lines are as they were at the beginning.
    pub fn heal(&mut self) {
        let cuts = std::mem::take(&mut self.cuts);
        self.rules("del", &cuts);
        for host in std::mem::take(&mut self.gone) {
            self.line(host, "up");
        }
        for host in std::mem::take(&mut self.slow) {
            let line = format!("h{host}");
            for (end, device) in [(&self.router, line.as_str()), (&self.hosts[&host], "lan")] {
                // It may have been slowed down twice.
                let _ = end.run("tc", &["qdisc", "del", "dev", device, "root"]);
            }
        }
    }

    /// Whether what one host sends to another passes the router.
    pub fn passes(&self, from: u8, to: u8, family: Family) -> bool {
        let (source, target) = (Self::address(from, family), Self::address(to, family));
        let (source, target, line) = (source.to_string(), target.to_string(), format!("h{from}"));
        let ask = ["route", "get", &target, "from", &source, "iif", &line];
        self.router.run("ip", &ask).is_ok()
    }

    /// Mounts a disk of so many megabytes, whose content is memory, at a directory that exists.
    /// Only the host sees it.
    pub fn mount_disk(&self, host: u8, at: &Path, megabytes: u32) {
        let (at, size) = (at.to_string_lossy(), format!("size={megabytes}m"));
        let mount = ["-t", "tmpfs", "-o", &size, "none", &at];
        self.hosts[&host].run("mount", &mount).unwrap_or_else(|why| panic!("{why}"));
    }

    /// A file of a host as this process reaches it.
    pub fn file_of_host(&self, host: u8, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.hosts[&host].holder.id()));
        root.join(path.strip_prefix("/").expect("it is absolute"))
    }
}

/// A network namespace with its mounts, as long as this lives.
struct Namespace {
    holder: Child,
}

/// What a program that joins a namespace joins.
const NAMESPACES: &[&str] = &["--user", "--net", "--mount"];

impl Namespace {
    /// Begins a namespace by a program that makes one and becomes another.
    fn begin(mut unshare: Command) -> Result<Self, String> {
        unshare.arg("cat").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let holder = unshare.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut namespace = Self { holder };
        // The namespace is there when the program has become the one that only waits.
        let name = format!("/proc/{}/comm", namespace.holder.id());
        let began = Instant::now();
        while std::fs::read_to_string(&name).is_ok_and(|name| name != "cat\n") {
            if matches!(namespace.holder.try_wait(), Ok(Some(_))) {
                break;
            }
            assert!(began.elapsed() < crate::PATIENCE, "a namespace is not made");
            thread::sleep(Duration::from_millis(1));
        }
        match namespace.holder.try_wait() {
            Ok(None) => Ok(namespace),
            ended => Err(namespace.complaint().unwrap_or_else(|| format!("{ended:?}"))),
        }
    }

    fn complaint(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut errors = self.holder.stderr.take()?;
        std::io::Read::read_to_string(&mut errors, &mut text).ok()?;
        Some(text.trim().to_string())
    }

    /// A program that joins this namespace, or only some kinds of it.
    fn command(&self, program: &str, kinds: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.id())).args(kinds);
        command.args(["--preserve-credentials", "--", program]);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        self.run_with_input(program, arguments, "")
    }

    fn run_with_input(&self, program: &str, args: &[&str], input: &str) -> Result<(), String> {
        let mut command = self.command(program, NAMESPACES);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let failed = |why: &dyn std::fmt::Display| format!("{program} {}: {why}", args.join(" "));
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).map_err(|error| failed(&error))?;
        drop(stdin);
        let output = child.wait_with_output().map_err(|error| failed(&error))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(()).ok_or_else(|| failed(&errors.trim()))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A router passes on what is not for itself. It keeps its addresses while a line is pulled out.
const ROUTER: &str = "ip link set lo up; cd /proc/sys/net; echo 1 > ipv4/ip_forward; \
    echo 1 > ipv6/conf/all/forwarding; echo 1 > ipv6/conf/all/keep_addr_on_down; \
    echo 0 > ipv4/conf/all/rp_filter; echo 0 > ipv4/conf/default/rp_filter";

/// The router's end of the line to host `$1`, whose namespace is that of process `$2`.
const LINE_OF_ROUTER: &str = "ip link add h$1 type veth peer name lan netns $2; \
    ip addr add 10.77.$1.1/24 dev h$1; \
    ip -6 addr add fd77:0:0:$(printf %x $1)::1/64 dev h$1 nodad; ip link set h$1 up";

/// The other end.
const LINE_OF_HOST: &str = "ip link set lo up; ip addr add 10.77.$1.2/24 dev lan; \
    net=fd77:0:0:$(printf %x $1); ip -6 addr add $net::2/64 dev lan nodad; ip link set lan up; \
    ip route add default via 10.77.$1.1; ip -6 route add default via $net::1";
