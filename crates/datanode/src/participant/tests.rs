//! Participants alone, a few at a time: coordinator and clients are played by hand, messages are
//! carried link by link.

mod copies;
mod disk;
mod distrust;
mod doubt;
mod ending;
mod keys;
mod locks;
mod mutations;
mod one_phase;
mod protocol;
mod scans;
mod streams;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use actor::{Actor, Ctx, EpochView, Figures, Mutation, Shared, Timer};
use model::cluster::{Replica, Takeover};
use model::{
    ActorKind, Address, ClusterState, ColumnId, ColumnType, Config, ControlIndex, Epoch, ErrorCode,
    Expression, Incarnation, IndexId, Key, Member, MemberStatus, NodeId, OperationNumber,
    PartitionId, PartitionIndex, Row, SessionId, Table, TableId, TransactionId, Value, WorkerId,
};
use stdx::{Duration, Few, HashMap, Instant, Prng};
use testing::{BIGINT, INT, member, serving_worker, slot};
use wire::{
    Besides, Chain, CoordinatorMessage, DeadlockSearch, Effect, LegId, LockMode, Message,
    Operation, OperationKind, OperationOutcome, ParticipantMessage, Projection, RollbackScope,
    SearchOrigin, WaitPolicy,
};

use super::Participant;

const P: PartitionId = PartitionId { table: TableId(1), index: PartitionIndex(0) };
const INDEX: IndexId = IndexId(5);
const CLIENT: Address = Address { node: NodeId(90), worker: WorkerId(0), actor: ActorKind::Client };

fn participant(node: u16) -> Address {
    Address { node: NodeId(node), worker: WorkerId(0), actor: ActorKind::Participant }
}

fn coordinator(node: u16) -> Address {
    Address { actor: ActorKind::Coordinator, ..participant(node) }
}

fn session(number: u32) -> SessionId {
    SessionId { node: CLIENT.node, incarnation: Incarnation(1), number }
}

fn txn(number: u32) -> TransactionId {
    TransactionId { session: session(number), number: 1 }
}

/// `id` is the key, `v` has an ordered index, `note` may be NULL.
fn table() -> Table {
    testing::table("d.t")
        .id(P.table)
        .column("id", BIGINT)
        .column("v", INT)
        .nullable("note", ColumnType::Variable(400))
        .index("by_v", ["v"])
        .with_index_id(INDEX)
        .build()
}

fn row(id: i64, v: i64) -> Row {
    let values = [Value::Int(id), Value::Int(v), Value::Null];
    table().layout().encode_values(&values).unwrap()
}

fn key(id: i64) -> Key {
    table().primary_key_of(&[Value::Int(id)]).unwrap()
}

fn values_of(row: &[u8]) -> (i64, i64) {
    match table().values(row)[..] {
        [Value::Int(id), Value::Int(v), _] => (id, v),
        _ => panic!("another row"),
    }
}

fn insert(id: i64, v: i64) -> OperationKind {
    OperationKind::Insert { row: row(id, v) }
}

fn upsert(id: i64, v: i64) -> OperationKind {
    OperationKind::Upsert { row: row(id, v) }
}

fn add(id: i64, amount: i64) -> OperationKind {
    let assignments = vec![(ColumnId(1), Expression::add(ColumnId(1), amount))];
    OperationKind::Update { key: key(id), condition: None, assignments }
}

fn delete(id: i64) -> OperationKind {
    OperationKind::Delete { key: key(id), condition: None }
}

fn read(id: i64, lock: LockMode, wait: WaitPolicy) -> OperationKind {
    OperationKind::Read { key: key(id), lock, wait, projection: Projection::All, snapshot: None }
}

fn operation(number: u64, kind: OperationKind) -> Operation {
    Operation { number: OperationNumber(number), partition: P, table_version: 1, kind }
}

struct Node {
    participant: Participant,
    shared: Shared,
}

/// What an operation was answered.
type Answer = Result<OperationOutcome, ErrorCode>;

struct World {
    nodes: BTreeMap<u16, Node>,
    cluster: Arc<ClusterState>,
    links: BTreeMap<(Address, Address), VecDeque<Message>>,
    /// What was sent to others than participants.
    others: Vec<(Address, Message)>,
    /// Answers to operations.
    answers: HashMap<(TransactionId, u64), Answer>,
    epoch: Epoch,
    coordinator: Address,
    /// How long operations wait for locks.
    lock_wait: Option<Duration>,
    besides: Besides,
    prng: Prng,
}

impl World {
    /// Nodes `1..=count` in one chain.
    fn new(count: u16) -> Self {
        Self::with(count, |_| {})
    }

    fn with(count: u16, adjust: impl Fn(&mut Config)) -> Self {
        let data: Vec<NodeId> = (1..=count).map(NodeId).collect();
        let mut config = Config::new(data.clone(), vec![], count as u8);
        adjust(&mut config);
        let cluster = testing::cluster(1..=count).slot(slot(1..=count)).table(table()).build();
        let mut world = Self {
            nodes: BTreeMap::new(),
            cluster: Arc::new(ClusterState::default()),
            links: BTreeMap::new(),
            others: vec![],
            answers: HashMap::default(),
            epoch: Epoch(5),
            coordinator: coordinator(count),
            lock_wait: None,
            besides: Besides::Nothing,
            prng: Prng::new(1),
        };
        for node in data {
            world.start(node.0, 1, config.clone());
        }
        world.change(|state| *state = cluster);
        world
    }

    fn start(&mut self, node: u16, incarnation: u64, config: Config) {
        let disk = config.disk.then(VecDeque::new);
        let shared = Shared {
            incarnation: Incarnation(incarnation),
            cluster: self.cluster.clone(),
            epochs: EpochView { current: self.epoch, ..EpochView::default() },
            disk,
            ..serving_worker(node, config)
        };
        self.nodes.insert(node, Node { participant: Participant::new(), shared });
        self.turn(node, |participant, ctx| {
            participant.cluster_changed(ctx, &ClusterState::default())
        });
    }

    /// One turn of a participant, with all invariants checked after it.
    fn turn(&mut self, node: u16, f: impl FnOnce(&mut Participant, &mut Ctx<'_>)) {
        let Some(Node { participant, shared }) = self.nodes.get_mut(&node) else { return };
        f(participant, &mut Ctx::new(shared, ActorKind::Participant));
        participant.check_invariants(shared);
        assert_eq!(shared.violations, [], "messages keep the rules");
        for envelope in shared.outbox.drain(..) {
            if envelope.to.actor == ActorKind::Participant {
                let link = (envelope.from, envelope.to);
                self.links.entry(link).or_default().push_back(*envelope.message);
                continue;
            }
            if let Message::Coordinator(CoordinatorMessage::Prepared {
                transaction, results, ..
            }) = &*envelope.message
            {
                for prepared in results {
                    let answer = prepared.result.clone().map_err(|refusal| refusal.code);
                    let earlier = self.answers.insert((*transaction, prepared.number.0), answer);
                    assert!(earlier.is_none(), "operation {} answered twice", prepared.number);
                }
            }
            self.others.push((envelope.to, *envelope.message));
        }
    }

    /// Publishes a new cluster state, member by member.
    fn change(&mut self, f: impl FnOnce(&mut ClusterState)) {
        let before = self.cluster.clone();
        let mut after = (*before).clone();
        f(&mut after);
        after.index = after.index.max(ControlIndex(before.index.0 + 1));
        self.cluster = Arc::new(after);
        let members: Vec<u16> = self.nodes.keys().copied().collect();
        for node in members {
            let shared = &mut self.nodes.get_mut(&node).unwrap().shared;
            shared.cluster = self.cluster.clone();
            self.turn(node, |participant, ctx| participant.cluster_changed(ctx, &before));
        }
    }

    /// A node that was removed comes back with its rows, as its second life. Its messages, notes to
    /// itself among them, have gone with the first.
    fn come_back(&mut self, node: u16, mut kept: Node) {
        kept.participant.rejoin();
        kept.shared.incarnation = Incarnation(2);
        kept.shared.epochs = EpochView::default();
        kept.shared.outbox.clear();
        self.nodes.insert(node, kept);
    }

    /// A node dies: its messages are lost, the others remove it.
    fn kill(&mut self, node: u16) {
        self.nodes.remove(&node);
        self.links.retain(|(from, to), _| from.node.0 != node && to.node.0 != node);
        self.change(|state| {
            let member = state.members.remove(&NodeId(node)).expect("a member dies");
            let slot = &mut state.slots[0];
            slot.replicas.retain(|replica| replica.node.0 != node);
            // A syncing replica never is first.
            if let Some(active) = slot.replicas.iter().position(|replica| !replica.syncing) {
                slot.replicas[..=active].rotate_right(1);
            }
            let incarnation = member.incarnation;
            state.takeovers.push(Takeover { node: NodeId(node), incarnation, workers: 1 });
        });
    }

    /// A node joins the chain right after the primary, to be copied.
    fn sync(&mut self, node: u16) {
        let incarnation = self.nodes[&node].shared.incarnation;
        self.change(|state| {
            state.takeovers.retain(|takeover| takeover.node.0 != node);
            state.slots[0].replicas.insert(1, Replica { node: NodeId(node), syncing: true });
            let joined_at = ControlIndex(state.index.0 + 1);
            let status = MemberStatus::Syncing;
            state.members.insert(NodeId(node), Member { status, joined_at, ..member(incarnation) });
        });
    }

    fn activate(&mut self, node: u16) {
        self.change(|state| {
            state.members.get_mut(&NodeId(node)).unwrap().status = MemberStatus::Active;
            for replica in &mut state.slots[0].replicas {
                replica.syncing &= replica.node.0 != node;
            }
        });
    }

    fn chain(&self) -> Chain {
        Chain::of(&self.cluster, P)
    }

    fn tell(&mut self, from: Address, to: Address, message: Message) {
        self.links.entry((from, to)).or_default().push_back(message);
    }

    /// Carries one message over a link; false when there is none.
    fn carry(&mut self, link: (Address, Address)) -> bool {
        let Some(messages) = self.links.get_mut(&link) else { return false };
        let Some(message) = messages.pop_front() else { return false };
        if messages.is_empty() {
            self.links.remove(&link);
        }
        self.turn(link.1.node.0, |participant, ctx| participant.handle(ctx, link.0, message));
        true
    }

    /// Carries one message over some link, chosen by chance.
    fn carry_any(&mut self) -> bool {
        let links: Vec<(Address, Address)> = self.links.keys().copied().collect();
        if links.is_empty() {
            return false;
        }
        let link = *self.prng.pick(&links);
        self.carry(link)
    }

    /// Carries messages until there are none.
    fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.carry_any() {
                return;
            }
        }
        panic!("messages without end");
    }

    /// Lets time pass on all nodes.
    fn pass(&mut self, time: Duration) {
        let nodes: Vec<u16> = self.nodes.keys().copied().collect();
        let until = self.nodes[&nodes[0]].shared.now + time;
        for node in nodes {
            loop {
                let shared = &mut self.nodes.get_mut(&node).unwrap().shared;
                let Some(at) = shared.timers.next().filter(|at| *at <= until) else { break };
                shared.now = at;
                let (_, timer) = shared.timers.pop_due(at).unwrap();
                let own = [Timer::ParticipantTick, Timer::DiskTick, Timer::StreamTick];
                assert!(own.contains(&timer));
                self.turn(node, |participant, ctx| participant.timeout(ctx, timer));
            }
            self.nodes.get_mut(&node).unwrap().shared.now = until;
        }
    }

    /// Sends operations to the primary, coordinated by node 1 or its successor.
    fn prepare(&mut self, transaction: TransactionId, operations: Vec<Operation>) {
        let chain = self.chain();
        self.prepare_with(transaction, chain, operations);
    }

    fn prepare_with(
        &mut self,
        transaction: TransactionId,
        chain: Chain,
        operations: Vec<Operation>,
    ) {
        let (to, operations) = (chain[0], operations.into());
        let leg = LegId(0);
        let (lock_wait, besides) = (self.lock_wait, self.besides);
        let prepare =
            ParticipantMessage::Prepare { transaction, leg, chain, operations, lock_wait, besides };
        let from = self.coordinator();
        self.tell(from, to, Message::Participant(prepare));
    }

    /// The coordinator everything is sent by: that of the last first member, which no test kills.
    fn coordinator(&self) -> Address {
        self.coordinator
    }

    fn order_commit(&mut self, transaction: TransactionId, chain: &[Address], keep: bool) {
        let (last, up) = chain.split_last().unwrap();
        let commit = ParticipantMessage::Commit {
            transaction,
            leg: LegId(0),
            epoch: self.epoch,
            up: up.into(),
            keep,
            coordinator: self.coordinator(),
            attempt: 1,
        };
        let from = self.coordinator();
        self.tell(from, *last, Message::Participant(commit));
    }

    fn order_complete(&mut self, transaction: TransactionId, chain: &[Address]) {
        let from = self.coordinator();
        for to in chain {
            let complete = ParticipantMessage::Complete { transaction, leg: LegId(0), attempt: 2 };
            self.tell(from, *to, Message::Participant(complete));
        }
    }

    fn order_abort(&mut self, transaction: TransactionId, chain: &[Address]) {
        let from = self.coordinator();
        let abort = ParticipantMessage::Abort {
            transaction,
            leg: LegId(0),
            down: chain[1..].into(),
            coordinator: from,
            attempt: 1,
        };
        self.tell(from, chain[0], Message::Participant(abort));
    }

    fn order_rollback(&mut self, transaction: TransactionId, scope: RollbackScope) {
        let (from, chain) = (self.coordinator(), self.chain());
        let down = chain[1..].into();
        let leg = LegId(0);
        let rollback = ParticipantMessage::Rollback { transaction, leg, scope, down, attempt: 7 };
        self.tell(from, chain[0], Message::Participant(rollback));
    }

    /// Runs operations numbered from 1 and answers what they were answered.
    fn execute(&mut self, transaction: TransactionId, kinds: Vec<OperationKind>) -> Vec<Answer> {
        let count = kinds.len() as u64;
        let number = |at: usize| at as u64 + 1;
        let operations =
            kinds.into_iter().enumerate().map(|(at, kind)| operation(number(at), kind)).collect();
        self.prepare(transaction, operations);
        self.run();
        (1..=count).map(|number| self.answer(transaction, number)).collect()
    }

    fn answer(&self, transaction: TransactionId, number: u64) -> Answer {
        let answer = self.answers.get(&(transaction, number));
        answer.unwrap_or_else(|| panic!("operation {number} of {transaction}")).clone()
    }

    fn answered(&self, transaction: TransactionId, number: u64) -> bool {
        self.answers.contains_key(&(transaction, number))
    }

    fn commit(&mut self, transaction: TransactionId) {
        let chain = self.chain();
        self.order_commit(transaction, &chain, false);
        self.run();
        self.order_complete(transaction, &chain[1..]);
        self.run();
    }

    /// A whole transaction that must succeed.
    fn write(&mut self, transaction: TransactionId, kinds: Vec<OperationKind>) {
        for answer in self.execute(transaction, kinds) {
            answer.expect("a change without refusal");
        }
        self.commit(transaction);
    }

    fn abort(&mut self, transaction: TransactionId) {
        let chain = self.chain();
        self.order_abort(transaction, &chain);
        self.run();
    }

    fn next_epoch(&mut self, retained: &[u64]) {
        self.epoch = self.epoch.next();
        for node in self.nodes.values_mut() {
            let epochs = &mut node.shared.epochs;
            epochs.current = self.epoch;
            epochs.completed = Epoch(self.epoch.0 - 1);
            epochs.retained = retained.iter().map(|epoch| Epoch(*epoch)).collect();
        }
    }

    /// The committed rows of a replica, by id.
    fn rows(&self, node: u16) -> Vec<(i64, i64)> {
        let partition = self.nodes[&node].participant.partitions().next().unwrap();
        let mut rows = vec![];
        let mut after = None;
        while let Some(row_id) = partition.next_row(after) {
            rows.push(values_of(partition.row(row_id).unwrap()));
            after = Some(row_id);
        }
        rows.sort_unstable();
        rows
    }

    fn digests(&self) -> Vec<u64> {
        self.nodes.values().map(|node| node.participant.digest(P).unwrap()).collect()
    }

    /// Nothing is open anywhere, and all replicas are equal.
    fn check_quiet(&self) {
        assert!(self.links.is_empty(), "messages under way");
        for node in self.nodes.values() {
            let open = node.participant.describe();
            assert_eq!(node.participant.open_transactions(), 0, "open: {open:?}");
            assert_eq!(node.participant.locked_rows(), 0, "locks are left");
        }
        let digests = self.digests();
        assert!(digests.iter().all(|digest| *digest == digests[0]), "replicas differ");
    }

    fn take_others(&mut self) -> Vec<Message> {
        self.others.drain(..).map(|(_, message)| message).collect()
    }
}
