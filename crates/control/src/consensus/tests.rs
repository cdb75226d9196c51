//! The consensus in a random network: messages are lost, late and out of order, nodes are cut off,
//! voters change. Nothing committed is ever different anywhere, and peace brings progress.

use stdx::Prng;

use super::sent::ENTRIES_PER_MESSAGE;
use super::*;

const ELECTION: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(10);
const CLUSTER: ClusterId = ClusterId(5);

struct Peer {
    consensus: Consensus,
    timer: Instant,
    tick: Instant,
    /// Committed entries as handed out, with the state replaced by their number on a snapshot.
    applied: u64,
}

struct Net {
    prng: Prng,
    now: Instant,
    peers: BTreeMap<u16, Peer>,
    /// By arrival and order: sender, receiver, message.
    wire: BTreeMap<(Instant, u64), (Voter, Voter, ControlMessage)>,
    sequence: u64,
    /// Nodes that hear nobody and are heard by nobody.
    cut: BTreeSet<u16>,
    lossy: bool,
    /// Voters change now and then.
    churn: bool,
    /// What was committed at each index.
    committed: BTreeMap<u64, Option<Arc<Command>>>,
    proposed: u64,
    /// By receiver, the entries in each message that has any.
    sent: BTreeMap<u16, Vec<usize>>,
    /// Entries that stay in the log at least when they are applied.
    kept: u64,
    /// How much longer messages to and from a node take.
    slow: BTreeMap<u16, Duration>,
}

fn voter(node: u16) -> Voter {
    voter_of(NodeId(node), Incarnation(1))
}

impl Net {
    fn new(seed: u64, nodes: u16) -> Self {
        let mut prng = Prng::new(seed);
        let peer = |node: u16, prng: &mut Prng| Peer {
            consensus: Consensus::new(voter(node), ELECTION),
            timer: Instant::FAR_FUTURE,
            tick: Instant::from_nanos(prng.below(TICK.as_nanos())),
            applied: 0,
        };
        let peers = (1..=nodes).map(|node| (node, peer(node, &mut prng))).collect();
        let mut net = Self {
            prng,
            now: Instant::ZERO,
            peers,
            wire: BTreeMap::new(),
            sequence: 0,
            cut: BTreeSet::new(),
            lossy: false,
            churn: false,
            committed: BTreeMap::new(),
            proposed: 0,
            sent: BTreeMap::new(),
            kept: 0,
            slow: BTreeMap::new(),
        };
        net.peer(1).consensus.found(CLUSTER);
        net.settle(1);
        net
    }

    fn peer(&mut self, node: u16) -> &mut Peer {
        let peer = self.peers.get_mut(&node).unwrap();
        peer.consensus.begin_turn(self.now);
        peer
    }

    /// Handles what a member has to say and what it has committed.
    fn settle(&mut self, node: u16) {
        let peer = self.peers.get_mut(&node).unwrap();
        while let Some((index, command)) = peer.consensus.next_committed() {
            assert_eq!(index, peer.applied + 1, "applied in order");
            peer.applied = index;
            let first = self.committed.entry(index).or_insert_with(|| command.clone());
            assert_eq!(*first, command, "entry {index} differs on {node}");
        }
        peer.consensus.compact(self.kept);
        peer.consensus.check();
        for output in peer.consensus.take_outputs() {
            match output {
                Output::Arm => {
                    let delay = self.prng.between(ELECTION.as_nanos(), 2 * ELECTION.as_nanos());
                    self.peers.get_mut(&node).unwrap().timer =
                        self.now + Duration::from_nanos(delay);
                }
                Output::Send(to, message) => self.post(voter(node), to, message),
                Output::Install(to) => {
                    let consensus = &self.peers[&node].consensus;
                    let (last, config) = consensus.position();
                    let term = consensus.term();
                    let state = Arc::default();
                    let message = ControlMessage::Snapshot { term, last, config, state };
                    self.post(voter(node), to, message);
                }
            }
        }
    }

    fn post(&mut self, from: Voter, to: Voter, message: ControlMessage) {
        if let ControlMessage::Raft { message, .. } = &message
            && let Message::AppendEntriesCall { entries, .. } = message
            && !entries.is_empty()
        {
            self.sent.entry(node_of(to).0).or_default().push(entries.len());
        }
        let lost = self.lossy && self.prng.percent(10);
        if lost || self.is_cut(from) || self.is_cut(to) {
            return;
        }
        let delay = if self.lossy { self.prng.below(60_000_000) } else { 1_000_000 };
        self.sequence += 1;
        let slow = [from, to].into_iter().filter_map(|end| self.slow.get(&node_of(end).0));
        let slow = slow.copied().max().unwrap_or(Duration::ZERO);
        let at = self.now + Duration::from_nanos(delay) + slow;
        self.wire.insert((at, self.sequence), (from, to, message));
    }

    fn is_cut(&self, voter: Voter) -> bool {
        self.cut.contains(&node_of(voter).0)
    }

    fn deliver(&mut self, from: Voter, to: Voter, message: ControlMessage) {
        let now = self.now;
        let node = node_of(to).0;
        if self.is_cut(from) || self.is_cut(to) {
            return;
        }
        let peer = self.peers.get_mut(&node).unwrap();
        let consensus = &mut peer.consensus;
        consensus.begin_turn(now);
        match message {
            ControlMessage::Raft { cluster, message, commands } => {
                if let Message::AppendEntriesCall { header, entries, .. } = &message {
                    let broken = consensus.broken_by(cluster, header.term, entries);
                    assert_eq!(broken, None, "{to:?} refuses what {from:?} sends: {message:?}");
                }
                consensus.receive(now, cluster, message, &commands);
            }
            ControlMessage::PreVote { term, last } => {
                consensus.receive_pre_vote(now, from, term, last);
            }
            ControlMessage::PreVoteReply { asked, term, granted } => {
                consensus.receive_pre_vote_reply(from, asked, term, granted);
            }
            ControlMessage::Snapshot { term, last, config, .. } => {
                if consensus.install(now, CLUSTER, from, term, last, config) {
                    peer.applied = last.index.get();
                }
            }
            _ => unreachable!("the consensus sends nothing else"),
        }
        self.settle(node);
    }

    /// Runs until `until`; leaders heartbeat, propose, and change voters among the members.
    fn run(&mut self, until: Instant, busy: bool) {
        while self.now < until {
            let mail = self.wire.keys().next().map(|(at, _)| *at);
            let timers = self.peers.values().map(|peer| peer.timer.min(peer.tick)).min();
            let next = timers.unwrap().min(mail.unwrap_or(Instant::FAR_FUTURE));
            self.now = self.now.max(next);
            if mail.is_some_and(|at| at <= self.now) {
                let (_, (from, to, message)) = self.wire.pop_first().unwrap();
                self.deliver(from, to, message);
                continue;
            }
            let due = |peer: &Peer| peer.timer.min(peer.tick) <= self.now;
            let node = *self.peers.iter().find(|(_, peer)| due(peer)).unwrap().0;
            self.wake(node, busy);
        }
    }

    fn wake(&mut self, node: u16, busy: bool) {
        let now = self.now;
        let peer = self.peers.get_mut(&node).unwrap();
        peer.consensus.begin_turn(now);
        if peer.timer <= now {
            peer.timer = Instant::FAR_FUTURE;
            peer.consensus.timeout();
        } else {
            peer.tick = now + TICK;
            if peer.consensus.is_leader() && !peer.consensus.stand_again_if_alone() {
                peer.consensus.heartbeat();
                self.reconcile(node);
                if busy {
                    self.propose(node);
                }
            }
        }
        self.settle(node);
    }

    fn propose(&mut self, node: u16) {
        if self.prng.percent(60) {
            self.proposed += 1;
            let incarnation = Incarnation(self.proposed);
            let command = Command::Leave { node: NodeId(node), incarnation };
            assert!(self.peer(node).consensus.propose(Arc::new(command)));
        }
        if self.churn && self.prng.percent(3) {
            let all: Vec<u16> = self.peers.keys().copied().collect();
            let voters: BTreeSet<Voter> =
                all.iter().filter(|_| self.prng.percent(60)).map(|n| voter(*n)).collect();
            self.change_voters(node, voters);
        }
    }

    /// Everyone who does not vote follows.
    fn reconcile(&mut self, node: u16) {
        let all: BTreeSet<Voter> = self.peers.keys().map(|n| voter(*n)).collect();
        let config = self.peers[&node].consensus.config().clone();
        let non_voters = all.difference(&config.voters).copied().collect();
        let next = ClusterConfig { non_voters, ..config.clone() };
        if next != config && !config.is_joint_consensus() {
            self.peer(node).consensus.propose_config(next);
        }
    }

    fn change_voters(&mut self, leader: u16, wanted: BTreeSet<Voter>) -> bool {
        let all: BTreeSet<Voter> = self.peers.keys().map(|n| voter(*n)).collect();
        let voters = self.peers[&leader].consensus.config().voters.clone();
        if wanted.is_empty() || wanted == voters {
            return false;
        }
        let both: BTreeSet<Voter> = voters.union(&wanted).copied().collect();
        let non_voters = all.difference(&both).copied().collect();
        let config = ClusterConfig { voters, new_voters: wanted, non_voters };
        self.peer(leader).consensus.propose_config(config)
    }

    fn leader(&self) -> Option<u16> {
        let leads = |peer: &&Peer| peer.consensus.is_leader();
        let newest = self.peers.values().filter(leads).max_by_key(|p| p.consensus.term().get())?;
        Some(node_of(newest.consensus.me).0)
    }

    fn after(&self, millis: u64) -> Instant {
        self.now + Duration::from_millis(millis)
    }
}

#[test]
fn random_networks_agree() {
    for seed in 0..60 {
        let mut net = Net::new(seed, 5);
        net.run(Instant::from_nanos(200_000_000), true);
        net.lossy = true;
        net.churn = true;
        for _ in 0..30 {
            net.cut.clear();
            if net.prng.percent(60) {
                for node in 1..=5 {
                    if net.prng.percent(35) {
                        net.cut.insert(node);
                    }
                }
            }
            let millis = net.prng.between(20, 800);
            net.run(net.after(millis), true);
        }
        net.cut.clear();
        net.lossy = false;
        net.churn = false;
        net.run(net.after(3_000), true);
        net.run(net.after(1_000), false);
        let leader = net.leader().unwrap_or_else(|| panic!("seed {seed}: no leader"));
        let committed = net.peers[&leader].applied;
        assert!(committed > 200, "seed {seed}: only {committed} entries");
        for peer in net.peers.values() {
            assert_eq!(peer.applied, committed, "seed {seed}: somebody is behind");
        }
    }
}

/// Three voters of which the first leads, that keep their logs.
fn three_voters() -> Net {
    let mut net = Net::new(1, 3);
    net.kept = 10_000;
    net.run(net.after(100), true);
    assert!(net.change_voters(1, (1..=3).map(voter).collect()));
    net.run(net.after(100), false);
    net.sent.clear();
    net
}

/// The leader proposes so many commands, one behind the other without a pause.
fn propose(net: &mut Net, count: u64) {
    for _ in 0..count {
        net.proposed += 1;
        let incarnation = Incarnation(9_000 + net.proposed);
        let command = Command::Leave { node: NodeId(1), incarnation };
        assert!(net.peer(1).consensus.propose(Arc::new(command)));
        net.settle(1);
    }
}

impl Net {
    /// How many entries a node was sent in how many messages with any, and the most in one of them.
    fn sent_to(&mut self, node: u16) -> (usize, usize, usize) {
        let sent = self.sent.remove(&node).unwrap_or_default();
        (sent.iter().sum(), sent.len(), sent.iter().copied().max().unwrap_or(0))
    }

    fn all_have_all(&self) -> bool {
        let all = self.peers[&1].consensus.last_index();
        self.peers.values().all(|peer| peer.applied == all)
    }
}

#[test]
fn entries_under_way_are_not_sent_again() {
    let mut net = three_voters();
    propose(&mut net, 200);
    net.run(net.after(200), false);
    assert!(net.all_have_all());
    for node in [2, 3] {
        // Each follower answers each of them, while it lacks those behind it.
        let (entries, ..) = net.sent_to(node);
        assert!((200..=400).contains(&entries), "{node} was sent {entries} entries");
    }
    // Later ones are sent once: it is known what was sent before.
    propose(&mut net, 200);
    net.run(net.after(200), false);
    assert_eq!((net.sent_to(2), net.sent_to(3)), ((200, 200, 1), (200, 200, 1)));
    assert!(net.all_have_all());
}

#[test]
fn a_slow_follower_is_sent_each_entry_once() {
    let mut net = three_voters();
    // Messages take far longer than entries count as under way, both ways.
    net.slow.insert(3, ELECTION.times(5));
    for _ in 0..60 {
        propose(&mut net, 10);
        net.run(net.after(50), false);
    }
    net.run(net.after(3_000), false);
    assert!(net.all_have_all());
    let (entries, ..) = net.sent_to(3);
    assert!((600..=1_200).contains(&entries), "{entries} entries were sent");
    assert_eq!(net.sent_to(2).0, 600, "the others do not notice");
}

#[test]
fn who_was_cut_off_is_brought_up_to_date_in_pieces() {
    let mut net = three_voters();
    net.cut.insert(3);
    propose(&mut net, 500);
    net.run(net.after(100), false);
    net.cut.clear();
    net.sent.clear();
    net.run(net.after(1_000), false);
    assert!(net.all_have_all());
    assert_eq!(net.sent_to(3), (500, 500_usize.div_ceil(ENTRIES_PER_MESSAGE), ENTRIES_PER_MESSAGE));
}

#[test]
fn entries_that_were_lost_are_sent_again() {
    let mut net = three_voters();
    propose(&mut net, 20);
    net.run(net.after(50), false);
    // What is on its way is lost, and nobody says so.
    propose(&mut net, 20);
    net.wire.retain(|_, (_, to, _)| node_of(*to) != NodeId(3));
    net.run(net.after(ELECTION.as_millis() + 50), false);
    assert!(net.all_have_all());
    // A leader of a later term begins anew: what the one before has sent says nothing.
    net.peer(1).consensus.resign();
    net.settle(1);
    net.run(net.after(1_000), true);
    net.run(net.after(200), false);
    let applied = net.peers.values().map(|peer| peer.applied).collect::<BTreeSet<_>>();
    assert_eq!(applied.len(), 1, "{applied:?}");
}

#[test]
fn a_longer_but_older_log_is_not_elected() {
    let mut net = Net::new(1, 3);
    net.run(net.after(100), true);
    assert!(net.change_voters(1, (1..=3).map(voter).collect()));
    net.run(net.after(100), false);
    // The leader alone appends what nobody will commit.
    net.cut.insert(1);
    for number in 0..50 {
        let command = Command::Leave { node: NodeId(1), incarnation: Incarnation(9_000 + number) };
        assert!(net.peer(1).consensus.propose(Arc::new(command)));
    }
    net.settle(1);
    net.run(net.after(1_000), false);
    let second = net.leader().unwrap();
    assert_ne!(second, 1);
    let command = Command::Leave { node: NodeId(1), incarnation: Incarnation(1) };
    assert!(net.peer(second).consensus.propose(Arc::new(command)));
    net.settle(second);
    net.run(net.after(100), false);
    let committed = net.peers[&second].applied;
    // The leader that committed is gone; of the others, one has a longer log and one a newer one.
    net.cut = BTreeSet::from([second]);
    net.run(net.after(3_000), false);
    let third = net.leader().filter(|leader| *leader != second).unwrap();
    assert_ne!(third, 1, "its log lacks what was committed");
    assert!(net.peers[&1].applied > committed);
}

#[test]
fn another_cluster_s_leader_is_not_followed() {
    let founded = |node, cluster| {
        let mut consensus = Consensus::new(voter(node), ELECTION);
        consensus.found(ClusterId(cluster));
        let command = Command::Leave { node: NodeId(node), incarnation: Incarnation(1) };
        assert!(consensus.propose(Arc::new(command)));
        assert_eq!(consensus.committed(), consensus.node.log().last_position().index.get());
        consensus.take_outputs();
        consensus
    };
    let (mut own, mut other) = (founded(1, 5), founded(2, 6));
    // It was asked for admission before, and leads in a newer term.
    other.resign();
    other.stand();
    let non_voters = BTreeSet::from([voter(1)]);
    let voters = BTreeSet::from([voter(2)]);
    let config = ClusterConfig { voters, non_voters, ..ClusterConfig::default() };
    assert!(other.propose_config(config.clone()));
    let before = (own.term(), own.committed());
    let mut messages = 0;
    for output in other.take_outputs() {
        if let Output::Send(to, ControlMessage::Raft { cluster, message, commands }) = output {
            assert_eq!((to, cluster), (voter(1), ClusterId(6)));
            own.receive(Instant::ZERO, cluster, message, &commands);
            messages += 1;
        }
    }
    let (last, term) = (other.position().0, Term::new(9));
    assert!(!own.install(Instant::ZERO, ClusterId(6), voter(2), term, last, config));
    assert!(messages > 0 && own.is_leader());
    assert_eq!((own.term(), own.committed()), before);
    assert!(own.take_outputs().is_empty());
}

#[test]
fn who_has_nothing_of_a_log_yet_belongs_to_no_cluster() {
    let mut leader = Consensus::new(voter(2), ELECTION);
    leader.found(CLUSTER);
    let voters = BTreeSet::from([voter(2)]);
    let non_voters = BTreeSet::from([voter(1)]);
    assert!(leader.propose_config(ClusterConfig {
        voters,
        non_voters,
        ..ClusterConfig::default()
    }));
    let mut own = Consensus::new(voter(1), ELECTION);
    leader.heartbeat();
    // The leader does not know yet how little the other one has: these entries fit nothing.
    for output in leader.take_outputs() {
        if let Output::Send(_, ControlMessage::Raft { cluster, message, commands }) = output
            && matches!(message, Message::AppendEntriesCall { .. })
        {
            own.receive(Instant::ZERO, cluster, message, &commands);
        }
    }
    assert!(!own.has_log() && own.cluster() == CLUSTER);
    own.found(ClusterId(6));
    assert!(own.has_log() && own.cluster() == ClusterId(6));
}

#[test]
fn a_node_that_was_cut_off_does_not_depose_the_leader() {
    let mut net = Net::new(2, 3);
    net.run(net.after(100), true);
    assert!(net.change_voters(1, (1..=3).map(voter).collect()));
    net.run(net.after(100), false);
    let (leader, term) = (net.leader().unwrap(), net.peers[&1].consensus.term());
    let other = if leader == 3 { 2 } else { 3 };
    net.cut.insert(other);
    net.run(net.after(1_500), true);
    net.cut.clear();
    net.run(net.after(1_000), true);
    assert_eq!(net.leader(), Some(leader));
    assert_eq!(net.peers[&leader].consensus.term(), term);
    assert_eq!(net.peers[&other].consensus.term(), term);
}

#[test]
fn the_last_voter_commits_alone() {
    let mut net = Net::new(3, 3);
    net.run(net.after(100), true);
    assert!(net.change_voters(1, (1..=3).map(voter).collect()));
    net.run(net.after(100), false);
    let leader = net.leader().unwrap();
    assert!(net.change_voters(leader, BTreeSet::from([voter(leader)])));
    net.run(net.after(8), false);
    net.cut = (1..=3).filter(|node| *node != leader).collect();
    net.run(net.after(500), true);
    let before = net.peers[&leader].applied;
    net.run(net.after(500), true);
    assert!(net.peers[&leader].applied > before + 10);
}

/// What a leader sends: the message, and the commands among its entries.
struct Sent {
    message: Message,
    commands: Vec<Arc<Command>>,
}

/// Entries that a leader sends in its term, behind one of a term and index; all are commands but
/// those that begin a term.
fn entries(from: u16, term: u64, committed: u64, after: (u64, u64), terms: &[u64]) -> Sent {
    let header =
        MessageHeader { from: voter(from), term: Term::new(term), seqno: MessageSeqNo::new(1) };
    let after = LogPosition { term: Term::new(after.0), index: LogIndex::new(after.1) };
    let mut entries = LogEntries::new(after);
    let mut commands = Vec::new();
    for term in terms {
        if entries.last_position().term.get() == *term {
            let incarnation = Incarnation(term * 1_000 + entries.last_position().index.get());
            commands.push(Arc::new(Command::Leave { node: NodeId(from), incarnation }));
            entries.push(LogEntry::Command);
        } else {
            entries.push(LogEntry::Term(Term::new(*term)));
        }
    }
    let commit_index = LogIndex::new(committed);
    Sent { message: Message::AppendEntriesCall { header, commit_index, entries }, commands }
}

fn receive(consensus: &mut Consensus, sent: Sent) {
    consensus.receive(Instant::ZERO, CLUSTER, sent.message, &sent.commands);
    while consensus.next_committed().is_some() {}
    consensus.take_outputs();
    consensus.check();
}

fn rule(consensus: &Consensus, cluster: ClusterId, message: &Message) -> Option<&'static str> {
    let Message::AppendEntriesCall { header, entries, .. } = message else { panic!("entries") };
    consensus.broken_by(cluster, header.term, entries)
}

/// The terms of all entries.
fn terms(consensus: &Consensus) -> Vec<u64> {
    let entries = consensus.node.log().entries();
    entries.iter_with_positions().map(|(position, _)| position.term.get()).collect()
}

#[test]
fn what_an_earlier_leader_has_sent_breaks_no_rule_when_a_newer_one_has_replaced_it() {
    let mut follower = Consensus::new(voter(3), ELECTION);
    receive(&mut follower, entries(1, 1, 2, (0, 0), &[1, 1, 1]));
    receive(&mut follower, entries(2, 2, 4, (1, 2), &[2, 2]));
    assert_eq!((terms(&follower), follower.applied()), (vec![1, 1, 2, 2], 4));
    for late in [
        entries(1, 1, 2, (1, 3), &[1]),
        entries(1, 1, 2, (1, 2), &[1, 1]),
        entries(1, 1, 3, (1, 3), &[]),
    ] {
        assert_eq!(rule(&follower, CLUSTER, &late.message), None, "{:?}", late.message);
        receive(&mut follower, late);
        assert_eq!((terms(&follower), follower.applied()), (vec![1, 1, 2, 2], 4));
    }
    // No leader of the same term, or of a later one, has others in place of what is committed.
    for term in [2, 3] {
        let contradicts = entries(1, term, 2, (1, 3), &[1]).message;
        let broken = rule(&follower, CLUSTER, &contradicts);
        assert_eq!(broken, Some("the control log contradicts what was committed"), "{term}");
        assert_eq!(rule(&follower, ClusterId(6), &contradicts), None, "another cluster's log");
    }
}

#[test]
fn a_life_that_has_again_what_the_last_one_gave_up_takes_the_leaders_entries_instead() {
    // A leader whose entry in term 2 nobody else has; the cluster has gone on from term 1.
    let mut voter_3 = Consensus::new(voter(3), ELECTION);
    receive(&mut voter_3, entries(1, 1, 2, (0, 0), &[1, 1]));
    receive(&mut voter_3, entries(2, 2, 2, (1, 2), &[2, 2]));
    // The leader of term 3 was told by an earlier life that its log ends with the second entry.
    let news = entries(1, 3, 2, (1, 2), &[1, 1, 3]);
    assert_eq!(rule(&voter_3, CLUSTER, &news.message), None, "nothing of it was committed");
    receive(&mut voter_3, news);
    assert_eq!(terms(&voter_3), [1, 1, 1, 1, 3]);
    receive(&mut voter_3, entries(1, 3, 6, (3, 5), &[3]));
    assert_eq!((terms(&voter_3), voter_3.applied()), (vec![1, 1, 1, 1, 3, 3], 6));
}
