//! The threads of a node on this machine: how many workers, where each thread runs, how it waits.
//!
//! # Owns
//! What `ThreadConfig` and its neighbours mean here, and the line that explains the outcome. A
//! worker does the work of NDB's `ldm`, `tc` and `query` threads and sends and reads for itself;
//! one thread makes links; some work the disk.
//! # Failure
//! A CPU that is not there, or not the process's to use, is an error that names it.
//! # Not here
//! The text of `ThreadConfig` (`cluster-config`), the threads themselves (`runtime`).

use std::collections::BTreeSet;

use cluster_config::{CpuSet, Node, ThreadConfig, ThreadGroup, ThreadRole, Threads, Value};
use runtime::{Scheduling, SpinMethod, ThreadPlace, WorkerPlace};

use crate::machine::{Cpus, cpu_list};

/// The threads of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) workers: u8,
    pub(crate) scheduling: Scheduling,
    /// Where all other threads of the process run.
    pub(crate) others: ThreadPlace,
    /// Why it is like this, in one line.
    pub(crate) line: String,
    /// What was written and has no effect here.
    pub(crate) notes: Vec<String>,
}

impl Layout {
    /// Lays the threads of a node out. `kept` is the number of workers that its directory has been
    /// made with.
    pub(crate) fn new(own: &Node, kept: Option<u8>, cpus: &Cpus) -> Result<Layout, String> {
        let threads = own.threads();
        let mut layout = match &threads {
            Threads::Manual(config) => manual(config, cpus)?,
            _ => locked(own, cpus)?,
        };
        let (wanted, why) = match &threads {
            Threads::Automatic { cpus: Some(given) } => (usize::from(*given), "NumCPUs"),
            Threads::Automatic { cpus: None } => (cpus.usable(), "one for each CPU"),
            Threads::Number(number) => (usize::from(*number), "MaxNoOfExecutionThreads"),
            Threads::Manual(config) => (config.count(ThreadRole::Rows) as usize, "ThreadConfig"),
        };
        let workers = wanted.clamp(1, WORKERS_MAX) as u8;
        layout.workers = kept.unwrap_or(workers);
        let why = match kept {
            Some(kept) if kept != workers => "as when its directory was made",
            _ => why,
        };
        layout.scheduling.spin = spin_method(own);
        layout.scheduling.cpus = cpus.usable();
        layout.give_places();
        layout.line = layout.explain(why, cpus);
        Ok(layout)
    }

    /// The layout of a process with so many workers on no CPUs in particular.
    pub(crate) fn plain(workers: u8, cpus: &Cpus) -> Layout {
        let scheduling = Scheduling { cpus: cpus.usable(), ..Scheduling::default() };
        Layout { workers, scheduling, ..Layout::default() }
    }

    /// As many places as workers: more workers share those that are given in turn.
    fn give_places(&mut self) {
        let given = std::mem::take(&mut self.scheduling.workers);
        if !given.is_empty() {
            let places = given.into_iter().cycle().take(usize::from(self.workers));
            self.scheduling.workers = places.collect();
        }
    }

    fn explain(&self, why: &str, cpus: &Cpus) -> String {
        let Scheduling { workers, links, disk, .. } = &self.scheduling;
        let count = self.workers;
        let mut line = format!("{count} worker{} ({why})", if count == 1 { "" } else { "s" });
        let places: Vec<&[u16]> = workers.iter().map(|worker| &worker.place.cpus[..]).collect();
        let bound = places.iter().any(|cpus| !cpus.is_empty());
        if bound && places.windows(2).all(|two| two[0] == two[1]) {
            line += &format!(" on CPUs {}", cpu_list(places[0]));
        } else if bound {
            let each: Vec<String> = places.iter().map(|cpus| cpu_list(cpus)).collect();
            line += &format!(" on CPUs {}", each.join(" | "));
        }
        for (name, place) in [("links", links), ("disk", disk), ("others", &self.others)] {
            if !place.cpus.is_empty() {
                line += &format!(", {name} on {}", cpu_list(&place.cpus));
            }
        }
        format!("{line}; {cpus}")
    }
}

/// What `ThreadConfig` says of each thread that there is.
fn manual(config: &ThreadConfig, cpus: &Cpus) -> Result<Layout, String> {
    let mut layout = Layout::default();
    check_cpus(config, cpus)?;
    let mut exclusive: BTreeSet<u16> = BTreeSet::new();
    for group in config.groups() {
        let role = group.role.name();
        let given: Vec<u16> =
            group.binding.as_ref().map_or(Vec::new(), |binding| binding.cpus.iter().collect());
        if group.binding.as_ref().is_some_and(|binding| binding.exclusive) {
            exclusive.extend(&given);
        }
        let nice = group.priority.map(nice);
        match group.role {
            ThreadRole::Rows => layout.scheduling.workers.extend(workers(group, &given, nice)),
            ThreadRole::Main | ThreadRole::Replication | ThreadRole::Receive | ThreadRole::Send => {
                join(&mut layout.scheduling.links, &given, nice)
            }
            ThreadRole::Io => join(&mut layout.scheduling.disk, &given, nice),
            ThreadRole::Watchdog => join(&mut layout.others, &given, None),
            ThreadRole::Query
            | ThreadRole::Recover
            | ThreadRole::Coordinator
            | ThreadRole::IndexBuild => layout.notes.push(format!(
                "{role} of ThreadConfig has no threads of its own: the workers (ldm) do that work; \
                 give its CPUs to ldm"
            )),
        }
        layout.notes.extend(without_effect(group));
    }
    if config.count(ThreadRole::Rows) == 0 {
        layout.notes.push("ThreadConfig has no ldm: there is one worker all the same".into());
    }
    if !exclusive.is_empty() {
        keep_off(&mut layout, config, &exclusive, cpus)?;
    }
    Ok(layout)
}

/// The workers of a group of `ldm`.
fn workers(group: &ThreadGroup, cpus: &[u16], nice: Option<i8>) -> Vec<WorkerPlace> {
    let one_each = group.binding.as_ref().is_some_and(|binding| binding.one_each);
    let spin = group.spin_us.map(|time| SpinMethod::Static(micros(u64::from(time))));
    let place = |index: usize| {
        let cpus = if one_each { vec![cpus[index]] } else { cpus.to_vec() };
        WorkerPlace { place: ThreadPlace { cpus, nice }, spin }
    };
    (0..usize::from(group.count)).map(place).collect()
}

/// Roles that are one thread here may use the CPUs of all of them, with the highest priority.
fn join(place: &mut ThreadPlace, cpus: &[u16], nice: Option<i8>) {
    let all: BTreeSet<u16> = place.cpus.iter().chain(cpus).copied().collect();
    place.cpus = all.into_iter().collect();
    place.nice = place.nice.into_iter().chain(nice).min();
}

/// Options that mean nothing here.
fn without_effect(group: &ThreadGroup) -> Vec<String> {
    let role = group.role.name();
    let mut notes = Vec::new();
    if group.realtime == Some(true) {
        notes.push(format!(
            "realtime of {role} has no effect: a worker that never sleeps would keep the system \
             itself from its CPU; use cpubind, or CPUSchedulingPolicy of the service in systemd"
        ));
    }
    if group.no_send == Some(true) {
        notes.push(format!("nosend of {role} has no effect: each worker sends for itself"));
    }
    if group.spin_us.is_some() && group.role != ThreadRole::Rows {
        notes.push(format!("spintime of {role} has no effect: only workers (ldm) spin"));
    }
    notes
}

/// Refuses CPUs that are not there or not allowed.
fn check_cpus(config: &ThreadConfig, cpus: &Cpus) -> Result<(), String> {
    for group in config.groups() {
        let Some(binding) = &group.binding else { continue };
        check_set(&format!("ThreadConfig: {}", group.role.name()), &binding.cpus, cpus)?;
    }
    Ok(())
}

fn check_set(who: &str, wanted: &CpuSet, cpus: &Cpus) -> Result<(), String> {
    for cpu in wanted.iter() {
        if !cpus.present.contains(&cpu) {
            let there = cpu_list(&cpus.present);
            return Err(format!("{who} has CPU {cpu}, and this machine has CPUs {there} only"));
        }
        if !cpus.allowed.contains(&cpu) {
            return Err(format!(
                "{who} has CPU {cpu}, and this process may use CPUs {} only: change that where it \
                 is started (taskset, AllowedCPUs in systemd, --cpuset-cpus in Docker), or the \
                 configuration",
                cpu_list(&cpus.allowed)
            ));
        }
    }
    Ok(())
}

/// Keeps all threads of the process off the CPUs that are some threads' alone.
fn keep_off(
    layout: &mut Layout,
    config: &ThreadConfig,
    exclusive: &BTreeSet<u16>,
    cpus: &Cpus,
) -> Result<(), String> {
    let mut seen: BTreeSet<u16> = BTreeSet::new();
    for binding in config.groups().iter().filter_map(|group| group.binding.as_ref()) {
        let twice = binding.cpus.iter().find(|cpu| exclusive.contains(cpu) && seen.contains(cpu));
        if let Some(cpu) = twice {
            return Err(format!("ThreadConfig: CPU {cpu} is exclusive, and given to others too"));
        }
        seen.extend(binding.cpus.iter());
    }
    let rest: Vec<u16> =
        cpus.allowed.iter().filter(|cpu| !exclusive.contains(cpu)).copied().collect();
    if rest.is_empty() {
        return Err("ThreadConfig: all CPUs of the process are exclusive, and there are threads \
            that have none; leave one to them"
            .into());
    }
    let Layout { scheduling, others, .. } = layout;
    let workers = scheduling.workers.iter_mut().map(|worker| &mut worker.place);
    for place in workers.chain([&mut scheduling.links, &mut scheduling.disk, others]) {
        if place.cpus.is_empty() {
            place.cpus.clone_from(&rest);
        }
    }
    Ok(())
}

/// What the parameters beside `ThreadConfig` say.
fn locked(own: &Node, cpus: &Cpus) -> Result<Layout, String> {
    let mut layout = Layout::default();
    let (workers, disk) = own.locked_cpus();
    if let Some(set) = &workers {
        check_set("LockExecuteThreadToCPU", set, cpus)?;
        let place = |cpu| ThreadPlace { cpus: vec![cpu], nice: None };
        let each = set.iter().map(|cpu| WorkerPlace { place: place(cpu), spin: None });
        layout.scheduling.workers = each.collect();
    }
    if let Some(set) = &disk {
        check_set("LockMaintThreadsToCPU", set, cpus)?;
        layout.scheduling.disk.cpus = set.iter().collect();
    }
    Ok(layout)
}

/// How the workers of a node wait.
pub(crate) fn spin_method(own: &Node) -> SpinMethod {
    let time = match own.value("SchedulerSpinTimer") {
        Some(Value::Number(time)) => micros(time),
        _ => stdx::Duration::ZERO,
    };
    match own.value("SpinMethod") {
        Some(Value::Text(name)) if name == "StaticSpinning" => SpinMethod::Static(time),
        Some(Value::Text(name)) if name == "LatencyOptimisedSpinning" => {
            SpinMethod::LatencyOptimised
        }
        Some(Value::Text(name)) if name == "DatabaseMachineSpinning" => SpinMethod::DatabaseMachine,
        _ => SpinMethod::CostBased,
    }
}

/// NDB's priorities go from 0 to 10, and 5 is the system's usual one.
fn nice(priority: u8) -> i8 {
    ((5 - priority.min(10) as i8) * 4).min(19)
}

fn micros(count: u64) -> stdx::Duration {
    stdx::Duration::from_micros(count)
}

/// Most workers of a node.
pub(crate) const WORKERS_MAX: usize = 64;

#[cfg(test)]
mod tests;
