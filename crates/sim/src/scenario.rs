//! Stories told by hand: a small cluster under load, the two or three faults that matter, and what
//! must come of them.

use std::rc::Rc;

use actor::{Actor, Ctx, Timer};
use model::{Address, ClusterState, MemberStatus, NodeId};
use stdx::Duration;
use wire::Message;

use crate::lab::{Lab, Phase};
use crate::setup::Setup;
use crate::workload::{Load, applications};
use crate::world::{ApplicationFactory, Kind, Status, World};

/// The data node with this number, from 1.
pub const fn data(number: u16) -> NodeId {
    NodeId(number)
}

/// The management node with this number, from 1.
pub const fn management(number: u16) -> NodeId {
    NodeId(50 + number)
}

/// The client node with this number, from 1.
pub const fn client(number: u16) -> NodeId {
    NodeId(100 + number)
}

/// The application of a client node that does nothing.
struct Idle;

impl Actor for Idle {
    fn handle(&mut self, _: &mut Ctx<'_>, _: Address, _: Message) {}

    fn timeout(&mut self, _: &mut Ctx<'_>, _: Timer) {}

    fn cluster_changed(&mut self, _: &mut Ctx<'_>, _: &ClusterState) {}
}

/// A cluster under load, in the hands of a test.
pub struct Scenario {
    /// Everything that can be done to the cluster.
    pub world: World,
    lab: Rc<Lab>,
}

impl Scenario {
    /// A complete cluster with its tables, on which all kinds of sessions work. Nodes that stop
    /// stay down until the test starts them.
    pub fn start(setup: Setup) -> Self {
        Self::start_with(setup, vec!["bank", "lists", "ledger", "names", "ring"])
    }

    /// The same with sessions of these kinds on each client node.
    pub fn start_with(setup: Setup, kinds: Vec<&'static str>) -> Self {
        Self::start_beside(setup, kinds, None)
    }

    /// The same, but one client node does nothing by itself.
    pub fn start_beside(setup: Setup, kinds: Vec<&'static str>, idle: Option<NodeId>) -> Self {
        Self::begin(setup, kinds, idle, false)
    }

    /// As [`Scenario::start_with`]; what is sent is counted from the beginning.
    pub fn start_counted(setup: Setup, kinds: Vec<&'static str>) -> Self {
        Self::begin(setup, kinds, None, true)
    }

    fn begin(setup: Setup, kinds: Vec<&'static str>, idle: Option<NodeId>, counted: bool) -> Self {
        // Each data node joins by some entries of the log.
        let patience = 20 + u64::from(setup.groups) * u64::from(setup.replicas);
        let first_client = setup.client_nodes().next().expect("a scenario has clients");
        let load = Load {
            seed: setup.seed,
            first_client,
            accounts: 10,
            ring: 7,
            idle: Duration::ZERO,
            pause_max: Duration::from_millis(3),
            copies: false,
            families: false,
            crowd: false,
            large: false,
            singles: false,
            registers: false,
            levels: false,
            storm: false,
            grants: false,
            sweeps: false,
            streams: false,
            ample_streams: true,
            sql: setup.sql_nodes(),
            backups: false,
            archives: false,
            moves: false,
            kinds,
        };
        let lab = Lab::new();
        let sessions = applications(lab.clone(), load);
        let application: ApplicationFactory =
            Box::new(
                move |place| {
                    if Some(place.node) == idle { Box::new(Idle) } else { sessions(place) }
                },
            );
        let mut world = World::new(setup, application);
        world.supervise(false);
        if counted {
            world.count_traffic();
        }
        let mut scenario = Self { world, lab };
        scenario.within(patience, "the cluster starts", World::all_active);
        let lab = scenario.lab.clone();
        scenario.within(20, "tables are made", move |_| lab.phase() == Phase::Working);
        scenario.run(Duration::from_millis(100));
        scenario
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        self.world.run_for(span);
    }

    /// Lets time pass until something is true; fails when it takes longer than `seconds`.
    pub fn within(&mut self, seconds: u64, what: &str, done: impl Fn(&World) -> bool) {
        let reached = self.world.run_until(Duration::from_secs(seconds), done);
        assert!(reached, "not within {seconds} s: {what}\n{}", self.world.describe());
    }

    /// Lets time pass until the cluster has gone on without these nodes and settled what they
    /// left.
    pub fn until_removed(&mut self, nodes: &[NodeId]) {
        self.within(10, "they are removed", |world| {
            let state = world.newest_state();
            let gone = |node: &NodeId| !state.members.contains_key(node);
            nodes.iter().all(gone) && state.takeovers.is_empty()
        });
    }

    /// Lets time pass until these nodes have stopped themselves.
    pub fn until_halted(&mut self, nodes: &[NodeId]) {
        self.within(30, "they halt", |world| {
            nodes.iter().all(|node| matches!(world.status(*node), Status::Halted(_)))
        });
    }

    /// Starts nodes and waits until all nodes are complete.
    pub fn bring_back(&mut self, nodes: &[NodeId]) {
        for node in nodes {
            self.world.restart(*node);
        }
        self.within(30, "all nodes are active", World::all_active);
    }

    /// All nodes lose their power now, clients too.
    pub fn power_loss(&mut self) {
        let nodes = self.world.all_nodes();
        self.world.power_loss(&nodes);
    }

    /// Starts every node that is down and waits until all nodes are complete.
    pub fn restart_all(&mut self) {
        let nodes = self.world.all_nodes();
        self.bring_back(&nodes);
    }

    /// The next restart of the whole cluster must not undo what is acknowledged by now. Lets as
    /// much time pass as it takes to save it.
    pub fn save(&mut self) {
        let config = &self.world.setup().config;
        let span = config.save_interval.times(3) + config.epoch_interval.times(6);
        let now = self.world.now();
        self.run(span + Duration::from_millis(100));
        self.world.promise(now);
    }

    /// Every session does something that succeeds.
    pub fn progress(&mut self) {
        let (before, lab) = (self.lab.progress(), self.lab.clone());
        self.within(30, "every session makes progress", move |_| {
            let now = lab.progress();
            now.iter().all(|(name, now)| now.rounds > before[name].rounds)
        });
    }

    /// Whether every session does something that succeeds within this time.
    pub fn progresses_within(&mut self, span: Duration) -> bool {
        let (before, lab) = (self.lab.progress(), self.lab.clone());
        self.world.run_until(span, move |_| {
            let now = lab.progress();
            now.iter().all(|(name, now)| now.rounds > before[name].rounds)
        })
    }

    /// Ends the load.
    pub fn end_load(&mut self) {
        self.lab.enter(Phase::Ending);
        let lab = self.lab.clone();
        self.within(60, "sessions end", move |_| lab.progress().values().all(|p| p.over));
    }

    /// Rounds of work that succeeded so far, of all sessions.
    pub fn rounds(&self) -> u64 {
        self.lab.progress().values().map(|progress| progress.rounds).sum()
    }

    /// Nodes that hold a lease and belong to the cluster by what they know.
    pub fn serving(&self) -> Vec<NodeId> {
        serving(&self.world)
    }

    /// Lets time pass until these nodes serve and no others: a survivor may have to get its lease
    /// from a new leader first. At no time does one of `never` serve.
    pub fn until_serving(&mut self, nodes: &[NodeId], never: &[NodeId]) {
        self.within(2, "they serve", |world| {
            let serving = serving(world);
            assert!(!never.iter().any(|node| serving.contains(node)), "{serving:?} serve");
            serving == nodes
        });
    }

    /// The status of a node as the cluster has it.
    pub fn member_status(&self, node: NodeId) -> Option<MemberStatus> {
        self.world.newest_state().members.get(&node).map(|member| member.status)
    }

    /// Ends the load; compares everything with the books; checks the cluster at rest. The nodes
    /// that are members now must be all that is left to look at, or all be active.
    pub fn finish(mut self) {
        if self.lab.phase() < Phase::Ending {
            self.end_load();
        }
        self.lab.enter(Phase::Auditing);
        let lab = self.lab.clone();
        self.within(60, "the audit ends", move |_| lab.phase() == Phase::Audited);
        self.within(30, "nothing is under way", World::is_at_rest);
        self.run(Duration::from_millis(50));
        self.world.check_at_rest();
    }
}

fn serving(world: &World) -> Vec<NodeId> {
    let serves = |node: &NodeId| {
        let member = world.cluster_of(*node).member(*node, world.incarnation(*node)).is_some();
        world.holds_lease(*node) && member
    };
    world.nodes(Kind::Data).into_iter().filter(serves).collect()
}
