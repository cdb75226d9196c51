//! What a thread tells of itself and of its workers when it is asked.
//!
//! # Owns
//! [`Turns`], how the loop spends its time; the answer to `Inspection::Figures`, which the host
//! gives in the name of the actor that was asked; whether a node can do its work.
//! # Guarantees
//! Counting costs no reading of the clock beyond the loop's own.

use actor::{Figures, Metric};
use model::{ClusterState, MemberStatus, NodeId, SessionId, Value};
use node::Outgoing;
use rustix::time::{ClockId, clock_gettime};
use stdx::Duration;
use wire::{Envelope, InspectMessage, Inspection, Message};

use super::{Hosted, Thread};
use crate::cluster::{Life, Role};
use crate::observer::{NodeReport, ThreadReport, tell_other_threads};

/// How a thread has spent its time since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    turns: u64,
    sleeps: u64,
    asleep: Duration,
    lent: Duration,
}

impl Turns {
    /// A turn begins after a sleep.
    pub(super) fn slept(&mut self, time: Duration) {
        self.turns += 1;
        self.sleeps += 1;
        self.asleep = self.asleep + time;
    }

    /// How long the thread has slept.
    pub(super) fn asleep(&self) -> Duration {
        self.asleep
    }

    /// Another thread has taken the turns for so long.
    pub(super) fn lent(&mut self, time: Duration) {
        self.lent = self.lent + time;
    }

    /// A turn begins right after the last one.
    pub(super) fn went_on(&mut self) {
        self.turns += 1;
    }
}

/// What the calling thread has used of a processor.
pub(super) fn thread_cpu() -> Duration {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Duration::from_nanos(cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64)
}

/// Who asks for figures, and under which number.
pub(super) fn question(envelope: &Envelope) -> Option<(SessionId, u64)> {
    let Message::Inspect(message) = &*envelope.message else { return None };
    match **message {
        InspectMessage::Ask { session, request, what: Inspection::Figures } => {
            Some((session, request))
        }
        _ => None,
    }
}

impl Thread {
    /// Answers a question for the figures of a node's worker, over the cluster's own messages.
    pub(super) fn answer(&mut self, asked: &Envelope, session: SessionId, request: u64) {
        let Some(at) = self.hosted.iter().position(|hosted| hosted.node == asked.to.node) else {
            return;
        };
        let mut figures = Figures::default();
        self.tell_thread(&mut figures);
        if self.index == 0 {
            tell_other_threads(&mut figures);
        }
        let now = self.now;
        let worker = &mut self.hosted[at].worker;
        worker.tell_figures(now, &mut figures);
        let shared = worker.shared();
        let (incarnation, reached) = (shared.incarnation, shared.cluster.index);
        let answer = InspectMessage::Answer { session, request, rows: rows(figures) };
        let message = Box::new(Message::Inspect(Box::new(answer)));
        let (from, to) = (asked.to, asked.from);
        let envelope = Envelope { from, incarnation, to, reached, message };
        self.send(Outgoing { envelope, life: None });
    }

    /// All that this thread knows.
    pub(super) fn report(&mut self) -> ThreadReport {
        let mut figures = Figures::default();
        self.tell_thread(&mut figures);
        let now = self.now;
        for hosted in &mut self.hosted {
            hosted.worker.tell_figures(now, &mut figures);
        }
        let nodes = match self.index {
            0 => self.common.lives.values().map(|life| self.node_report(life)).collect(),
            _ => Vec::new(),
        };
        ThreadReport { thread: self.index, figures, nodes }
    }

    fn tell_thread(&self, figures: &mut Figures) {
        let name = format!("worker-{}", self.index);
        // What is done for it meanwhile is in the account of the thread that does it.
        let cpu = self.sharing.cpu_when_lent().unwrap_or_else(thread_cpu);
        figures.add(Metric::ThreadCpu, &[&name], cpu.as_nanos());
        figures.add_time(Metric::ThreadAsleep, &[&name], self.turns.asleep);
        let lent = self.turns.lent + self.sharing.lent_for(self.now);
        figures.add_time(Metric::ThreadLent, &[&name], lent);
        figures.add(Metric::ThreadTurns, &[&name], self.turns.turns);
        figures.add(Metric::ThreadSleeps, &[&name], self.turns.sleeps);
        if let Some(links) = &self.links {
            links.tell_figures(figures);
        }
    }

    fn node_report(&self, life: &Life) -> NodeReport {
        let hosted = self.hosted.iter().find(|hosted| hosted.node == life.node);
        let why_not = match hosted.filter(|_| !life.has_ended()) {
            None => Some("the node has stopped".into()),
            Some(hosted) => self.why_not_ready(hosted),
        };
        NodeReport { node: life.node, role: life.role, why_not }
    }

    /// Why a node cannot do its work now; none if it can.
    fn why_not_ready(&self, hosted: &Hosted) -> Option<String> {
        let shared = hosted.worker.shared();
        let cluster = &shared.cluster;
        if self.stopping.is_some() {
            return Some("the process is stopping".into());
        }
        let why = match hosted.role {
            // It is there to be asked, above all while the others cannot start without it.
            Role::Management => return None,
            Role::Data => {
                let member = cluster.member(shared.node, shared.incarnation);
                match member.map(|member| member.status) {
                    None => "the node has not been admitted to the cluster yet",
                    Some(MemberStatus::Joining) => "the node has no rows to serve yet",
                    Some(MemberStatus::Restoring) => "the node reads its rows back from its disk",
                    Some(MemberStatus::Syncing) => "the node is being given rows by the others",
                    Some(MemberStatus::Leaving) => "the node leaves the cluster",
                    Some(MemberStatus::Active) => match of_cluster(cluster) {
                        Some(why) => why,
                        None if shared.lease.until() <= self.now => {
                            "the node has no lease: it does not hear enough of the others to serve"
                        }
                        None => return None,
                    },
                }
            }
            Role::Client if cluster.index.0 == 0 => "the node has not reached the cluster yet",
            Role::Client => match of_cluster(cluster) {
                Some(why) => why,
                None => return self.unreached_group(cluster),
            },
        };
        Some(why.into())
    }

    /// A node group of which no complete data node is reached.
    fn unreached_group(&self, cluster: &ClusterState) -> Option<String> {
        let reached = |node: NodeId| match &self.links {
            Some(links) => links.is_up(node),
            None => self.common.lives.get(&node).is_some_and(|life| !life.has_ended()),
        };
        let lost = cluster.used_slots().find(|slot| {
            !slot.replicas.iter().any(|replica| !replica.syncing && reached(replica.node))
        })?;
        Some(format!("no data node with all rows of node group {} is reached", lost.group))
    }
}

fn of_cluster(cluster: &ClusterState) -> Option<&'static str> {
    match (cluster.started, cluster.stopped) {
        (_, true) => Some("the cluster has stopped"),
        (false, false) => Some("the cluster has not started yet"),
        (true, false) => None,
    }
}

/// Figures as rows of an answer.
fn rows(figures: Figures) -> Vec<Vec<Value>> {
    let row = |(name, labels, number): (String, String, u64)| {
        vec![Value::text(&name), Value::text(&labels), Value::UInt(number)]
    };
    figures.rows().into_iter().take(wire::inspect::ROWS_MAX).map(row).collect()
}
