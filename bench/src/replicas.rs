//! Two data nodes in one thread, without sockets: the actors' own cost per operation.
//!
//! # Owns
//! The coordinators and participants of two nodes with one worker each, one table with two
//! replicas, and a queue that carries messages between them in order. The epoch stands still;
//! there is no control plane.
//! # Not here
//! Failures, latency, encoding: this counts processor time only.

use std::collections::VecDeque;
use std::sync::Arc;

use actor::{Actor, Ctx, EpochView, Shared};
use datanode::coordinator::Coordinator;
use datanode::participant::Participant;
use model::{
    ActorKind, Address, ColumnId, Config, Epoch, Expression, Incarnation, Key, NodeId,
    OperationNumber, PartitionId, Row, SessionId, Table, TransactionId, Value, WorkerId,
};
use testing::{cluster, serving_worker};
use wire::{
    ClientReply, ClientRequest, Envelope, KeyRead, Message, Operation, OperationKind,
    ParticipantMessage, Projection, ReadRequest, TransactionState,
};

const CLIENT: Address = Address { node: NodeId(9), worker: WorkerId(0), actor: ActorKind::Client };

struct Node {
    shared: Shared,
    coordinator: Coordinator,
    participant: Participant,
}

/// A cluster of two replicas that runs as fast as one thread can.
pub struct Replicas {
    nodes: Vec<Node>,
    queue: VecDeque<Envelope>,
    replies: Vec<ClientReply>,
    table: Arc<Table>,
    transactions: u64,
}

impl Replicas {
    /// Two empty replicas of `table`.
    pub fn new(table: Arc<Table>) -> Self {
        let cluster = Arc::new(cluster([1, 2]).table(Arc::clone(&table)).build());
        let config = Arc::new(Config::new(vec![NodeId(1), NodeId(2)], vec![], 2));
        let nodes = (1..=2).map(|n| node(n, &config)).collect();
        let mut replicas =
            Self { nodes, queue: VecDeque::new(), replies: vec![], table, transactions: 0 };
        for at in 0..2 {
            let node = &mut replicas.nodes[at];
            let before = Arc::clone(&node.shared.cluster);
            node.shared.cluster = Arc::clone(&cluster);
            let mut ctx = Ctx::new(&mut node.shared, ActorKind::Participant);
            node.participant.cluster_changed(&mut ctx, &before);
        }
        replicas.pump();
        replicas
    }

    /// Inserts one row per transaction.
    pub fn insert(&mut self, values: &[Value]) {
        let row = self.table.layout().encode_values(values).expect("the row fits");
        let partition = self.partition(&values[0]);
        self.run(vec![(partition, OperationKind::Insert { row })]);
    }

    /// Assigns to `column` of the rows with these keys, in one autocommit transaction.
    pub fn update(&mut self, ids: &[i64], column: ColumnId, value: &Expression) {
        let operation = |id: &i64| {
            let assignments = vec![(column, value.clone())];
            let key = self.key(*id);
            let kind = OperationKind::Update { key, condition: None, assignments };
            (self.partition(&Value::Int(*id)), kind)
        };
        self.run(ids.iter().map(operation).collect());
    }

    /// Reads the committed row with this key at its primary.
    pub fn read(&mut self, id: i64) -> Option<Row> {
        let partition = self.partition(&Value::Int(id));
        let read = KeyRead { partition, key: self.key(id), projection: Projection::All };
        let session = transaction(0).session;
        let request =
            Box::new(ReadRequest { session, request: 1, snapshot: None, reads: vec![read] });
        let to = self.nodes[0].shared.cluster.primary(partition).expect("a live partition");
        self.send(to, Message::Participant(ParticipantMessage::Read(request)));
        match self.replies.pop() {
            Some(ClientReply::Read { result, .. }) => {
                result.expect("served").pop().expect("one answer per key")
            }
            other => panic!("expected a row, not {other:?}"),
        }
    }

    fn key(&self, id: i64) -> Key {
        self.table.primary_key_of(&[Value::Int(id)]).expect("an integer key")
    }

    fn partition(&self, id: &Value) -> PartitionId {
        let index = self.table.partition_of_key(std::slice::from_ref(id)).expect("a key");
        PartitionId { table: self.table.id, index }
    }

    /// Operations as a whole transaction, coordinated where the first one's primary is.
    fn run(&mut self, kinds: Vec<(PartitionId, OperationKind)>) {
        self.transactions += 1;
        let primary = self.nodes[0].shared.cluster.primary(kinds[0].0).expect("a live partition");
        let to = Address { actor: ActorKind::Coordinator, ..primary };
        let table_version = self.table.version;
        let operation = |(at, (partition, kind))| {
            let number = OperationNumber(at as u64 + 1);
            Operation { number, partition, table_version, kind }
        };
        let request = ClientRequest::Execute {
            transaction: transaction(self.transactions),
            request: 1,
            operations: kinds.into_iter().enumerate().map(operation).collect(),
            commit: true,
            lock_wait: None,
        };
        self.send(to, Message::Request(request));
        match self.replies.pop() {
            Some(ClientReply::Transaction { state: TransactionState::Committed(_), .. }) => {}
            other => panic!("expected a commit, not {other:?}"),
        }
    }

    fn send(&mut self, to: Address, message: Message) {
        let reached = self.nodes[0].shared.cluster.index;
        let incarnation = Incarnation(1);
        self.queue.push_back(Envelope {
            from: CLIENT,
            incarnation,
            to,
            reached,
            message: Box::new(message),
        });
        self.pump();
    }

    /// Carries messages until none is left.
    fn pump(&mut self) {
        while let Some(envelope) = self.queue.pop_front() {
            let Envelope { from, to, message, .. } = envelope;
            let message = *message;
            if to.node == CLIENT.node {
                if let Message::Reply(reply) = message {
                    self.replies.push(reply);
                }
                continue;
            }
            let node = &mut self.nodes[usize::from(to.node.0) - 1];
            let mut ctx = Ctx::new(&mut node.shared, to.actor);
            match to.actor {
                ActorKind::Coordinator => node.coordinator.handle(&mut ctx, from, message),
                ActorKind::Participant => node.participant.handle(&mut ctx, from, message),
                _ => {}
            }
            self.queue.append(&mut node.shared.outbox);
        }
    }
}

/// One session does all, one transaction after the other.
fn transaction(number: u64) -> TransactionId {
    let session = SessionId { node: CLIENT.node, incarnation: Incarnation(1), number: 1 };
    TransactionId { session, number }
}

fn node(number: u16, config: &Arc<Config>) -> Node {
    let shared = Shared {
        epochs: EpochView { current: Epoch(1), ..EpochView::default() },
        ..serving_worker(number, Arc::clone(config))
    };
    shared.lease.set_protocol(wire::PROTOCOL_VERSION);
    Node { shared, coordinator: Coordinator::new(), participant: Participant::new() }
}
