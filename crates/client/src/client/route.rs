//! Whom to send a request to: coordinators and readers, and nodes to stay away from for a while.

use std::collections::BTreeMap;

use actor::Ctx;
use model::{
    ActorKind, Address, ClusterState, ControlIndex, ErrorCode, Incarnation, MemberStatus, NodeId,
    PartitionId, Refusal, WorkerId,
};
use stdx::{Duration, HashMap, Instant};
use wire::{CoordinatorRef, REPLICAS_MAX};

use super::Client;

/// How long a node is avoided whose link broke, or which said that it does not serve.
const AVOID_TIME: Duration = Duration::from_millis(200);

/// One life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) node: NodeId,
    pub(super) incarnation: Incarnation,
}

impl Life {
    /// The life a coordinator lives in.
    pub(super) fn of(coordinator: &CoordinatorRef) -> Self {
        Self { node: coordinator.address.node, incarnation: coordinator.incarnation }
    }

    /// Whether the loss of `lost` takes this life along. A client whose cluster state is behind
    /// may have spoken to a later life than it believed, so earlier ones are lost too.
    pub(super) fn ends_with(self, lost: Life) -> bool {
        self.node == lost.node && self.incarnation <= lost.incarnation
    }
}

/// Nodes that are better not asked now.
#[derive(Debug, Default)]
pub(super) struct Avoided {
    until: BTreeMap<NodeId, Instant>,
    /// The newest life of a node known to have ended.
    ended: BTreeMap<NodeId, Incarnation>,
}

impl Avoided {
    /// Stays away from a node until `until`.
    pub(super) fn avoid(&mut self, life: Life, until: Instant) {
        let entry = self.until.entry(life.node).or_insert(until);
        *entry = until.max(*entry);
    }

    /// A link broke; `closed` when the process has ended.
    pub(super) fn link_down(&mut self, life: Life, closed: bool, now: Instant) {
        self.avoid(life, now + AVOID_TIME);
        if closed {
            let entry = self.ended.entry(life.node).or_default();
            *entry = life.incarnation.max(*entry);
        }
    }

    /// Forgets what the cluster state says by itself.
    pub(super) fn forget_old_lives(&mut self, cluster: &ClusterState) {
        self.ended.retain(|node, incarnation| {
            cluster.members.get(node).is_some_and(|member| member.incarnation <= *incarnation)
        });
    }

    /// Whether every node may be asked now.
    fn is_empty(&mut self, now: Instant) -> bool {
        self.until.retain(|_, until| *until > now);
        self.until.is_empty() && self.ended.is_empty()
    }

    /// Whether a node's present life is known to have ended.
    pub(super) fn dead(&self, life: Life) -> bool {
        self.ended.get(&life.node).is_some_and(|ended| life.incarnation <= *ended)
    }

    /// Whether a node may be asked now.
    pub(super) fn welcome(&self, life: Life, now: Instant) -> bool {
        !self.dead(life) && self.until.get(&life.node).is_none_or(|until| *until <= now)
    }
}

/// Who may be asked for rows of a partition: those that are asked first, all alike.
type Candidates = ([Option<(Address, Life)>; REPLICAS_MAX], usize);

/// Readers of partitions, as they are while no node is to be stayed away from.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// The cluster state they were found in.
    of: ControlIndex,
    by_partition: HashMap<PartitionId, Candidates>,
}

impl Routes {
    /// What was found out in this state of the cluster.
    fn get(&mut self, state: ControlIndex, partition: PartitionId) -> Option<Candidates> {
        if self.of != state {
            (self.of, self.by_partition) = (state, HashMap::default());
        }
        self.by_partition.get(&partition).copied()
    }
}

/// What `refusal` says of the node that sent it.
pub(super) fn says_not_serving(refusal: &Refusal) -> bool {
    matches!(refusal.code, ErrorCode::NotServing | ErrorCode::ShuttingDown)
}

impl Client {
    /// Stays away for a while from a node that does not serve.
    pub(super) fn avoid_refuser(&mut self, ctx: &Ctx<'_>, from: Address, refusal: &Refusal) {
        if says_not_serving(refusal)
            && let Some(life) = life_of(ctx.cluster(), from.node)
        {
            self.avoided.avoid(life, ctx.now() + AVOID_TIME);
        }
    }

    /// A coordinator for a transaction that begins with `partition`: on the worker of its primary
    /// if that takes transactions now, else any.
    pub(super) fn choose_coordinator(
        &self,
        ctx: &mut Ctx<'_>,
        partition: Option<PartitionId>,
    ) -> Result<CoordinatorRef, Refusal> {
        let cluster = ctx.cluster().clone();
        let now = ctx.now();
        if let Some(primary) = partition.and_then(|partition| cluster.primary(partition))
            && let Some(life) = life_of(&cluster, primary.node)
            && cluster.members[&primary.node].status == MemberStatus::Active
            && self.avoided.welcome(life, now)
        {
            let address = Address { actor: ActorKind::Coordinator, ..primary };
            return Ok(CoordinatorRef { address, incarnation: life.incarnation });
        }
        let mut candidates: Vec<(Life, u8)> = cluster
            .data_members()
            .filter(|(_, m)| matches!(m.status, MemberStatus::Active | MemberStatus::Syncing))
            .map(|(node, m)| (Life { node, incarnation: m.incarnation }, m.workers))
            .filter(|(life, _)| !self.avoided.dead(*life))
            .collect();
        if candidates.iter().any(|(life, _)| self.avoided.welcome(*life, now)) {
            candidates.retain(|(life, _)| self.avoided.welcome(*life, now));
        }
        if candidates.is_empty() {
            return Err(Refusal::new(ErrorCode::NotServing, "no data node to ask"));
        }
        let (life, workers) = *ctx.prng().pick(&candidates);
        let worker = WorkerId(ctx.prng().below(u64::from(workers.max(1))) as u8);
        let address = Address { node: life.node, worker, actor: ActorKind::Coordinator };
        Ok(CoordinatorRef { address, incarnation: life.incarnation })
    }

    /// A participant for committed reads of a partition, of this very node if it has one, or else
    /// nearby. The same one for the same `preference` while the placement lasts, so that a session
    /// does not see time go back.
    pub(super) fn choose_reader(
        &mut self,
        ctx: &Ctx<'_>,
        partition: PartitionId,
        preference: u32,
    ) -> Option<(Address, Life)> {
        let state = ctx.cluster().index;
        let (best, count) = if !self.avoided.is_empty(ctx.now()) {
            self.best_readers(ctx, partition)
        } else if let Some(known) = self.routes.get(state, partition) {
            known
        } else {
            let found = self.best_readers(ctx, partition);
            self.routes.by_partition.insert(partition, found);
            found
        };
        best[preference as usize % count.max(1)].filter(|_| count > 0)
    }

    /// Those that are welcome before others, and of these the one on this node, or else the nearby
    /// ones.
    fn best_readers(&self, ctx: &Ctx<'_>, partition: PartitionId) -> Candidates {
        let cluster = ctx.cluster();
        let mut best = [None; REPLICAS_MAX];
        let (mut rank, mut count) = ((false, 0), 0);
        for address in cluster.readers(partition) {
            let Some(life) = life_of(cluster, address.node) else { continue };
            if self.avoided.dead(life) {
                continue;
            }
            let welcome = self.avoided.welcome(life, ctx.now());
            let close = if address.node == ctx.node() {
                2
            } else {
                u8::from(ctx.config().nearby.contains(&address.node))
            };
            if (welcome, close) > rank {
                (rank, count) = ((welcome, close), 0);
            }
            if (welcome, close) == rank {
                best[count] = Some((address, life));
                count += 1;
            }
        }
        (best, count)
    }
}

/// The life of a node that is a member now.
pub(super) fn life_of(cluster: &ClusterState, node: NodeId) -> Option<Life> {
    let member = cluster.members.get(&node)?;
    Some(Life { node, incarnation: member.incarnation })
}

#[cfg(test)]
mod tests {
    use model::{PartitionIndex, TableId};

    use super::*;

    #[test]
    fn routes_hold_in_one_state_of_the_cluster() {
        let partition = PartitionId { table: TableId(1), index: PartitionIndex(0) };
        let mut routes = Routes::default();
        assert_eq!(routes.get(ControlIndex(7), partition), None);
        routes.by_partition.insert(partition, ([None; REPLICAS_MAX], 0));
        assert!(routes.get(ControlIndex(7), partition).is_some());
        assert_eq!(routes.get(ControlIndex(8), partition), None);
        assert_eq!(routes.get(ControlIndex(7), partition), None);
    }

    #[test]
    fn a_node_is_stayed_away_from_for_a_while_and_a_dead_life_for_ever() {
        let life = Life { node: NodeId(1), incarnation: Incarnation(1) };
        let mut avoided = Avoided::default();
        assert!(avoided.is_empty(Instant::ZERO));
        avoided.avoid(life, Instant::from_nanos(10));
        assert!(!avoided.is_empty(Instant::from_nanos(9)));
        assert!(avoided.is_empty(Instant::from_nanos(10)));
        avoided.link_down(life, true, Instant::from_nanos(10));
        assert!(!avoided.is_empty(Instant::FAR_FUTURE));
        avoided.forget_old_lives(&ClusterState::default());
        assert!(avoided.is_empty(Instant::FAR_FUTURE));
    }
}
