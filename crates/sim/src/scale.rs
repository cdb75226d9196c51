//! What a cluster says to itself, as a function of its size: epochs, heartbeats, and what a change
//! of its members takes.
//!
//! # Owns
//! One cluster of a shape, which forms, works a little, stands idle, loses nodes and gets one back,
//! and the counts of each part.
//! # Guarantees
//! Two counts of a shape are the same, on whichever machine.
//! # Not here
//! What operations of clients cost (`bench::scaling`); what the counts say of clusters
//! (`docs/scaling.md`).

use std::fmt;

use model::NodeId;
use stdx::{Duration, Instant};

use crate::scenario::Scenario;
use crate::setup::Setup;
use crate::world::{Kind, MATTERS, Matter, Sent, Traffic, World};

/// How long a cluster works, and how long it stands idle.
const SPAN: Duration = Duration::from_secs(4);
/// What follows a change of members comes within this time: voters, and primaries that move back.
const SETTLES: Duration = Duration::from_secs(4);
/// How long a change may take, in seconds.
const LIMIT: u64 = 300;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Data nodes: an even number, as there are two replicas of each row.
    pub nodes: u16,
    /// Workers of each.
    pub workers: u8,
    /// Nodes have disks.
    pub disks: bool,
}

/// A part of a cluster's life.
#[derive(Clone, Debug)]
pub struct Part {
    /// What happened.
    pub name: &'static str,
    /// How long it took until all was served again, or how long it was counted.
    pub span: Duration,
    /// Whether counts are told for a second.
    rate: bool,
    /// What was sent.
    pub traffic: Traffic,
    /// Who drove epochs.
    driver: NodeId,
}

/// What was measured of a shape.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The shape.
    pub shape: Shape,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

/// Measures a shape.
///
/// # Panics
/// When the cluster does not do its part in time.
pub fn measure(shape: Shape) -> Measured {
    let mut setup = Setup::new(2, shape.nodes / 2).workers(shape.workers).clients(1);
    if shape.disks {
        setup = setup.disks();
    }
    setup.check_every = u64::MAX;
    let mut parts = Vec::new();
    let mut scenario = Scenario::start_counted(setup, vec!["bank", "bank"]);
    let traffic = scenario.world.take_traffic();
    let span = scenario.world.now().since(Instant::ZERO);
    let driver = scenario.world.driver().expect("a cluster that serves has a driver");
    parts.push(Part { name: "forms, and makes a table", span, rate: false, traffic, driver });
    parts.push(rate(&mut scenario, "a little work"));
    scenario.end_load();
    // Epochs become slow, and what was begun comes to its end.
    scenario.run(Duration::from_secs(3));
    parts.push(rate(&mut scenario, "idle"));
    let lost = scenario.world.nodes(Kind::Data).pop().expect("a cluster has data nodes");
    parts.push(change(&mut scenario, "a data node dies", |world| world.crash(lost), gone(lost)));
    parts.push(change(
        &mut scenario,
        "it comes back",
        |world| world.restart(lost),
        |world| world.all_active(),
    ));
    let driver = scenario.world.driver().expect("a cluster that serves has a driver");
    let dies = |world: &mut World| world.crash(driver);
    parts.push(change(&mut scenario, "the driver dies", dies, gone(driver)));
    Measured { shape, parts }
}

/// Whether the cluster has gone on without a node: all that were served are served again.
fn gone(lost: NodeId) -> impl Fn(&World) -> bool {
    move |world| {
        let state = world.newest_state();
        let serves = |node: NodeId| world.holds_lease(node) || node == lost;
        !state.members.contains_key(&lost)
            && state.takeovers.is_empty()
            && world.nodes(Kind::Data).into_iter().all(serves)
    }
}

fn rate(scenario: &mut Scenario, name: &'static str) -> Part {
    let driver = scenario.world.driver().expect("a cluster that serves has a driver");
    scenario.world.count_traffic();
    scenario.run(SPAN);
    Part { name, span: SPAN, rate: true, traffic: scenario.world.take_traffic(), driver }
}

fn change(
    scenario: &mut Scenario,
    name: &'static str,
    make: impl Fn(&mut World),
    done: impl Fn(&World) -> bool,
) -> Part {
    let began = scenario.world.now();
    scenario.world.count_traffic();
    make(&mut scenario.world);
    scenario.within(LIMIT, name, done);
    let span = scenario.world.now().since(began);
    scenario.run(SETTLES);
    let driver = scenario.world.driver().expect("a cluster that serves has a driver");
    Part { name, span, rate: false, traffic: scenario.world.take_traffic(), driver }
}

impl Part {
    /// The lines of its tables: what, messages, those between nodes, bytes, messages at the driver.
    fn lines(&self) -> Vec<(String, [f64; 4])> {
        let seconds = if self.rate { self.span.as_nanos() as f64 / 1e9 } else { 1.0 };
        let each = |sent: Sent, driver: Sent| {
            [sent.messages(), sent.between, sent.bytes, driver.messages()]
                .map(|count| count as f64 / seconds)
        };
        let of = |matter: &Matter| {
            let sent = self.traffic.of(*matter);
            let driver = self.traffic.at(self.driver, *matter);
            (matter.name().to_string(), each(sent, driver))
        };
        // What goes on whatever happens is told once, and work is no cost of size.
        let told = |matter: &&Matter| match matter {
            Matter::Epochs | Matter::Saves | Matter::Liveness => self.rate,
            Matter::Work => false,
            Matter::Log | Matter::Membership | Matter::Recovery => true,
        };
        let lines = MATTERS.iter().filter(told).map(of);
        lines.filter(|(_, counts)| counts[0] > 0.0).collect()
    }
}

impl Measured {
    /// The head of the table that [`Measured`] shows the lines of.
    pub const HEAD: &'static str = "\
| data nodes | workers | when | seconds | what | messages | between nodes | bytes | at the driver |
|---|---|---|---|---|---|---|---|---|
";

    /// What was sent in each part, by the names of messages.
    pub fn by_name(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            for (name, sent) in part.traffic.by_name() {
                let Sent { within, between, bytes } = *sent;
                text += &format!(
                    "{}: {name}: {within} within nodes, {between} between, {bytes} bytes\n",
                    part.name
                );
            }
        }
        text
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { nodes, workers, .. } = self.shape;
        for part in &self.parts {
            let name = part.name;
            let span = if part.rate { "each".into() } else { format!("{:.2}", seconds(part.span)) };
            for (what, [messages, between, bytes, driver]) in part.lines() {
                writeln!(
                    f,
                    "| {nodes} | {workers} | {name} | {span} | {what} | {messages:.0} | \
                     {between:.0} | {bytes:.0} | {driver:.0} |"
                )?;
            }
        }
        Ok(())
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_nanos() as f64 / 1e9
}
