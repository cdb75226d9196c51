//! What a restart of the whole cluster would lose, and what is said of damaged disks.
//!
//! # Guarantees
//! 1. The cluster does not restart with less than an epoch that some witness on the disks of the
//!    nodes that are back calls durable, unless an operator has ordered this restart to do so.
//! 2. An order holds for one restart, and not below the epoch that it names. What it gives up is
//!    recorded with the restart (`ClusterState::restarts`): no later one brings it back or asks
//!    for it.
//! # Not here
//! Which epoch can be restored (`restart`), how news travel (`news`).

use std::collections::{BTreeMap, BTreeSet};

use actor::{Ctx, Mutation, probe};
use model::{Address, Epoch, MemberStatus, NodeId};
use stdx::{Duration, Instant};
use wire::{ControlMessage, NewsKind, NodeLife};

use super::Control;

/// How often operators are reminded of a restart that waits for an order.
const REMINDER: Duration = Duration::from_secs(60);
/// Most files that one line names.
const NAMED_MAX: usize = 6;

/// Losses that are in question.
#[derive(Debug, Default)]
pub(super) struct Loss {
    /// An operator's order: for the restart after so many, back to this epoch at most.
    accepted: Option<(usize, Epoch)>,
    /// What was last said of a restart that is refused, and when.
    refusal: Option<(Instant, String)>,
    /// The rows of this life must come from others: its disk has lost what it had.
    repairing: bool,
    /// Others have given this life rows.
    pub(super) was_given_rows: bool,
    /// What is wrong with the control log that an earlier life has left.
    pub(super) log_damage: Option<String>,
}

impl Control {
    /// The disk has been looked at: says what is wrong with it.
    pub(super) fn report_damage(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(what) = self.loss.log_damage.take() {
            let text = format!(
                "the control log is damaged: {what}; the node goes on without it, as a new voter: \
                 if no majority of the voters has its log, the cluster does not start until the \
                 file is brought back"
            );
            self.announce(ctx, NewsKind::Damaged, text);
        }
        if let Some(what) = self.witness.damage() {
            let text = format!("damaged on its disk: {what}; nothing is missing, it is made anew");
            self.announce(ctx, NewsKind::Harmless, text);
        }
        let has = self.stored_rows().map_or(0, |(_, epoch)| epoch.0);
        let had = self.durable_evidence().map_or(0, |(_, epoch)| epoch.0);
        let missing = self.restore.found().any(|found| found.missing);
        let damages = self.restore.found().flat_map(|found| &found.damages);
        let damages: Vec<&str> = damages.map(String::as_str).collect();
        if damages.is_empty() {
            return;
        }
        let what = named(&damages);
        self.loss.repairing = missing;
        if missing {
            let text = format!(
                "damaged on its disk: {what}; of what was on it up to epoch {had} it has what \
                 came up to epoch {has}: the rest must come from another replica"
            );
            self.announce(ctx, NewsKind::Damaged, text);
        } else {
            let text = format!(
                "damaged on its disk: {what}; nothing is missing: everything up to epoch {has} is \
                 in other files"
            );
            self.announce(ctx, NewsKind::Harmless, text);
        }
    }

    /// Says so when what was missing has come from other nodes.
    pub(super) fn report_repair(&mut self, ctx: &mut Ctx<'_>) {
        let active = |status| status == MemberStatus::Active;
        if !self.loss.repairing || !self.own_member().is_some_and(|m| active(m.status)) {
            return;
        }
        self.loss.repairing = false;
        let mut sources: BTreeSet<NodeId> = BTreeSet::new();
        for slot in &self.state.slots {
            if slot.replicas.iter().any(|replica| replica.node == self.node) {
                sources.extend(slot.replicas.iter().map(|replica| replica.node));
            }
        }
        sources.remove(&self.node);
        if !self.loss.was_given_rows || sources.is_empty() {
            return; // It was restarted by order, without what is missing.
        }
        let text = format!(
            "repaired: what was damaged on its disk has been replaced by what {} had",
            list(sources)
        );
        self.announce(ctx, NewsKind::Repaired, text);
    }

    /// The newest epoch that some node which is back calls durable, as far as it still counts, and
    /// which node.
    pub(super) fn newest_durable(&self, back: &BTreeMap<NodeId, NodeLife>) -> (Epoch, NodeId) {
        let own = self.durable_evidence().map(|durable| (self.node, durable));
        let others = back.iter().filter_map(|(node, life)| Some((*node, life.durable?)));
        let counts =
            own.into_iter().chain(others).filter(|(_, (cluster, _))| *cluster == self.state.id);
        let counts = counts.map(|(node, (_, epoch))| (self.state.restorable(epoch), node));
        counts.max_by_key(|(epoch, _)| *epoch).unwrap_or((Epoch(0), self.node))
    }

    /// Whether the cluster may restart from an epoch: it loses nothing that was durable, or an
    /// operator has ordered so. Otherwise says why not.
    pub(super) fn may_restart_from(
        &mut self,
        ctx: &mut Ctx<'_>,
        back: &BTreeMap<NodeId, NodeLife>,
        epoch: Option<Epoch>,
    ) -> bool {
        let (durable, witness) = self.newest_durable(back);
        let loses = epoch.is_none_or(|epoch| epoch < durable);
        if !loses || ctx.mutated(Mutation::WatermarksIgnored) {
            return epoch.is_some();
        }
        let Some(accepted) = epoch.filter(|epoch| self.accepts(*epoch)) else {
            let text = self.refusal(back, epoch, durable, witness);
            self.refuse_restart(ctx, epoch.unwrap_or(Epoch(0)), text);
            return false;
        };
        probe!(ctx, "control: loss of durable epochs accepted");
        let text = format!(
            "by order of an operator the cluster goes back to epoch {}: what was committed after \
             it up to epoch {} is given up",
            accepted.0, durable.0
        );
        self.announce_loss(ctx, NewsKind::LossAccepted, accepted, text);
        true
    }

    /// Whether an operator has ordered the next restart to go back as far as this epoch.
    pub(super) fn accepts(&self, epoch: Epoch) -> bool {
        let next = self.state.restarts.len();
        self.loss.accepted.is_some_and(|(restart, least)| restart == next && epoch >= least)
    }

    /// Why the cluster does not restart, in words.
    fn refusal(
        &self,
        back: &BTreeMap<NodeId, NodeLife>,
        epoch: Option<Epoch>,
        durable: Epoch,
        witness: NodeId,
    ) -> String {
        let slots = || self.state.used_slots();
        let sources: BTreeSet<NodeId> = slots().flat_map(|slot| slot.sources()).collect();
        let absent = slots().filter(|slot| !slot.sources().any(|node| back.contains_key(&node)));
        let absent: BTreeSet<NodeId> = absent.flat_map(|slot| slot.sources()).collect();
        if !absent.is_empty() {
            return format!(
                "the cluster does not restart: nobody is back of those that had all rows of a node \
                 group; start {}",
                list(absent)
            );
        }
        let missing: BTreeSet<NodeId> =
            sources.iter().filter(|node| !back.contains_key(node)).copied().collect();
        let has = |node: &NodeId| {
            let rows = back.get(node)?.rows.filter(|(cluster, _)| *cluster == self.state.id);
            Some(match rows {
                Some((_, saved)) => {
                    let saved = self.state.restorable(saved).0;
                    format!("node {} has what came up to epoch {saved}", node.0)
                }
                None => format!("node {} has nothing that can be restored", node.0),
            })
        };
        let holdings: Vec<String> = sources.iter().filter_map(has).collect();
        let absent = if missing.is_empty() {
            String::new()
        } else {
            format!("; {} missing: start what may have the rest", are(missing))
        };
        let (durable, witness) = (durable.0, witness.0);
        let (what, order) = match epoch {
            Some(epoch) => {
                let epoch = epoch.0;
                (format!("that would go back to epoch {epoch}, and lose what came later"), epoch)
            }
            None => ("no epoch can be restored in all node groups".to_owned(), 0),
        };
        let lost = if order == 0 { "; all rows would be lost" } else { "" };
        format!(
            "the cluster does not restart: {what}; everything up to epoch {durable} was on disk, \
             as node {witness} knows; {}{absent}; what is damaged these nodes say themselves; \
             bring the files back, or give the rest up for the whole cluster with `nines ctl \
             accept-loss {order}`{lost}",
            holdings.join(", ")
        )
    }

    /// Says why the cluster does not restart, when that is new, and now and then.
    fn refuse_restart(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch, text: String) {
        probe!(ctx, "control: restart refused, as durable epochs would be lost");
        let fresh =
            |(at, said): &(Instant, String)| *said == text && ctx.now().since(*at) < REMINDER;
        if !self.loss.refusal.as_ref().is_some_and(fresh) {
            self.loss.refusal = Some((ctx.now(), text.clone()));
            self.announce_loss(ctx, NewsKind::LossRefused, epoch, text);
        }
    }

    /// Says why no new cluster is founded: the disks have rows of one whose control log is lost.
    pub(super) fn refuse_founding(&mut self, ctx: &mut Ctx<'_>, nodes: BTreeSet<NodeId>) {
        let text = format!(
            "no cluster is founded: no node has a control log, and {} rows of an earlier cluster \
             on disk, which cannot be read without it; bring a file control/log-… back on one of \
             the nodes that voted, or start all data nodes with --initial to give the rows up",
            have(nodes)
        );
        self.refuse_restart(ctx, Epoch(0), text);
    }

    /// An operator orders to go on without what is lost.
    pub(super) fn receive_accept_loss(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        restarts: u32,
        epoch: Epoch,
    ) {
        if self.consensus.is_leader() {
            if restarts as usize == self.state.restarts.len() {
                self.loss.accepted = Some((restarts as usize, epoch));
            }
        } else if from.node == self.node {
            self.tell_leader(ctx, ControlMessage::AcceptLoss { restarts, epoch });
        }
    }
}

/// The first of many files, and how many there are beside.
fn named(files: &[&str]) -> String {
    let more = files.len().saturating_sub(NAMED_MAX);
    let first = files[..files.len() - more].join("; ");
    if more > 0 { format!("{first}; and {more} more") } else { first }
}

/// `node 1`, `nodes 1, 2`.
fn list(nodes: BTreeSet<NodeId>) -> String {
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    let ids: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
    format!("{word} {}", ids.join(", "))
}

fn are(nodes: BTreeSet<NodeId>) -> String {
    let verb = if nodes.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(nodes))
}

fn have(nodes: BTreeSet<NodeId>) -> String {
    let verb = if nodes.len() == 1 { "has" } else { "have" };
    format!("{} {verb}", list(nodes))
}
