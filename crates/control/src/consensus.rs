//! The replicated control log: one member's part of the consensus, without any I/O.
//!
//! Wraps the `raftbare` library, whose log knows only that an entry is a command, not which one.
//!
//! # Owns
//! The library's node, the commands beside its log, what has been handed out as committed, and who
//! is known to lead; what of it is to be kept on the disk. Elections begin with a question
//! (`PreVote`) that changes nobody's term.
//! # Guarantees
//! 1. Commands are handed out in log order, each once, and only when committed.
//! 2. A vote goes to a candidate whose log is at least as new as the voter's, by the term of the
//!    last entry and then by its index. (The library compares indexes alone, which would lose
//!    committed entries; see [`Consensus::receive_vote_call`].)
//! 3. Members of different clusters never mix their logs, whatever reaches them late.
//! 4. A leader is recognised by everyone in its term, whoever they voted for.
//! 5. On a node with a disk, a command is handed out only when the disk has it.
//! # Not here
//! What the commands mean (`state_machine`), when to propose them (`control`), timers; the disk,
//! and that messages wait for it (`control::durable`).

mod sent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{ClusterId, Command, Incarnation, NodeId};
use raftbare::{
    Action, ClusterConfig, Log, LogEntries, LogEntry, LogIndex, LogPosition, Message,
    MessageHeader, MessageSeqNo, Node, NodeId as Voter, Role, Term,
};
use stdx::{Duration, Instant};
use wire::ControlMessage;

use crate::journal::{Entry, Record, Stored};
use sent::Sent;

/// Entries after which the log's applied prefix is replaced by the state it has built.
const COMPACT_AFTER: u64 = 96;
/// Bits of a voter's identity that hold the incarnation; the node is above them.
const INCARNATION_BITS: u32 = 48;

/// The identity of a life in the consensus: a life that lost its memory has no old vote.
pub(crate) fn voter_of(node: NodeId, incarnation: Incarnation) -> Voter {
    let life = incarnation.0 & ((1 << INCARNATION_BITS) - 1);
    Voter::new(u64::from(node.0) << INCARNATION_BITS | life)
}

/// The node a voter is a life of.
pub(crate) fn node_of(voter: Voter) -> NodeId {
    NodeId((voter.get() >> INCARNATION_BITS) as u16)
}

/// What the consensus wants done.
#[derive(Debug)]
pub(crate) enum Output {
    /// Send a message.
    Send(Voter, ControlMessage),
    /// Set the election timer anew.
    Arm,
    /// Send the applied state, which replaces what the receiver lacks.
    Install(Voter),
}

/// What the disk has to know.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// A new file is to begin with the applied state: the old one no longer fits the log.
    pub(crate) rebase: bool,
    /// A new file may begin with the applied state, as the old one has become long.
    pub(crate) compacted: bool,
    /// What is to be added to the file otherwise.
    pub(crate) records: Vec<Record>,
}

/// One member of the consensus.
#[derive(Debug)]
pub(crate) struct Consensus {
    me: Voter,
    /// Whose log this is, or will be if the leader heard last sends it; zero before.
    cluster: ClusterId,
    node: Node,
    /// Commands by log index, for the part of the log that is kept.
    commands: BTreeMap<u64, Arc<Command>>,
    /// The last entry handed out.
    applied: u64,
    /// Up to where followers have been told that the log is committed.
    announced: u64,
    /// Who leads `leader_term`, as far as known.
    leader: Option<Voter>,
    leader_term: Term,
    /// When that leader was last heard.
    heard_at: Instant,
    /// That leader is known to lead no more, as its process ended or it said so; or this life goes
    /// on from a disk and has heard of none.
    leader_lost: bool,
    /// Who would vote for this member now.
    backers: BTreeSet<Voter>,
    /// A leader heard within this time keeps its followers from voting for others.
    election_timeout: Duration,
    /// What followers have been sent by this member as the leader.
    sent: Sent,
    /// The time of the present turn.
    now: Instant,
    outputs: Vec<Output>,
    /// What has changed since the disk was last told; none on a node without a disk.
    journal: Option<Journal>,
    /// The disk has the log up to here.
    kept: u64,
}

impl Consensus {
    /// A member without log that belongs to no cluster yet.
    pub(crate) fn new(me: Voter, election_timeout: Duration) -> Self {
        Self {
            me,
            cluster: ClusterId(0),
            node: Node::start(me),
            commands: BTreeMap::new(),
            applied: 0,
            announced: 0,
            leader: None,
            leader_term: Term::ZERO,
            heard_at: Instant::ZERO,
            leader_lost: false,
            backers: BTreeSet::new(),
            election_timeout,
            sent: Sent::new(election_timeout.divided_by(2)),
            now: Instant::ZERO,
            outputs: Vec::new(),
            journal: None,
            kept: u64::MAX,
        }
    }

    /// The same on a node with a disk, which has nothing of a log.
    pub(crate) fn new_on_disk(me: Voter, election_timeout: Duration) -> Self {
        let journal = Some(Journal { rebase: true, ..Journal::default() });
        Self { journal, kept: 0, ..Self::new(me, election_timeout) }
    }

    /// A member that goes on where it was when the file was written.
    pub(crate) fn resume(me: Voter, election_timeout: Duration, stored: &Stored) -> Self {
        let entries = stored.log_entries();
        let last = entries.last_position().index.get();
        let log = Log::new((&stored.members).into(), entries);
        let voted_for = stored.voted_for.map(Voter::new);
        let first = stored.last.index + 1;
        let commands =
            stored.entries.iter().zip(first..).filter_map(|(entry, index)| match entry {
                Entry::Command(command) => Some((index, command.clone())),
                Entry::Term(_) | Entry::Members(_) => None,
            });
        let mut consensus = Self {
            cluster: stored.cluster,
            node: Node::restart(me, Term::new(stored.term), voted_for, log),
            commands: commands.collect(),
            applied: stored.last.index,
            leader_lost: true,
            kept: last,
            ..Self::new_on_disk(me, election_timeout)
        };
        consensus.collect(&BTreeMap::new());
        consensus
    }

    /// A turn begins.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.now = now;
    }

    /// What the disk is to be told since the last call, if there is anything.
    pub(crate) fn take_journal(&mut self) -> Option<Journal> {
        let journal = self.journal.as_mut()?;
        let any = journal.rebase || journal.compacted || !journal.records.is_empty();
        any.then(|| std::mem::take(journal))
    }

    /// The records that a new file has after its base, which ends with this entry.
    pub(crate) fn tail(&self, base: u64) -> Vec<Record> {
        let entries = self.node.log().entries();
        let after = LogIndex::new(base);
        let term = entries.get_term(after).expect("the log keeps what follows the base");
        let tail = entries.iter_with_positions().filter(|(position, _)| position.index > after);
        let entries = tail.map(|(position, entry)| self.keep_entry(position, entry)).collect();
        let after = LogPosition { term, index: after }.into();
        vec![Record::Append { cluster: self.cluster, after, entries }, self.vote()]
    }

    fn vote(&self) -> Record {
        let voted_for = self.node.voted_for().map(Voter::get);
        Record::Vote { term: self.node.current_term().get(), voted_for }
    }

    fn keep_entry(&self, position: LogPosition, entry: LogEntry) -> Entry {
        match entry {
            LogEntry::Term(term) => Entry::Term(term.get()),
            LogEntry::ClusterConfig(config) => Entry::Members((&config).into()),
            LogEntry::Command => {
                let command = self.commands.get(&position.index.get());
                Entry::Command(command.expect("a command entry has its command").clone())
            }
        }
    }

    /// The disk has the log up to this index.
    pub(crate) fn set_kept(&mut self, index: u64) {
        self.kept = index;
    }

    /// The last entry of the log.
    pub(crate) fn last_index(&self) -> u64 {
        self.node.log().last_position().index.get()
    }

    /// Founds a cluster of this member alone.
    pub(crate) fn found(&mut self, cluster: ClusterId) {
        self.cluster = cluster;
        let position = self.node.create_cluster(&[self.me]);
        assert!(!position.is_invalid(), "only a member without log founds a cluster");
        self.collect(&BTreeMap::new());
    }

    /// Takes a message of the library with the commands that belong to its entries.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        cluster: ClusterId,
        message: Message,
        commands: &[Arc<Command>],
    ) {
        if !self.may_belong_to(cluster) {
            return;
        }
        match &message {
            Message::RequestVoteCall { header, last_position } => {
                self.receive_vote_call(now, *header, *last_position);
            }
            Message::AppendEntriesCall { header, entries, .. } => {
                let header = *header;
                let Some(arrived) = pair(entries, commands) else {
                    return; // Not a well-formed message; the leader repeats what is missing.
                };
                self.cluster = cluster;
                self.follow(header);
                if header.term >= self.node.current_term()
                    && let Message::AppendEntriesCall { entries, .. } = &message
                {
                    self.give_up_others(header, entries);
                }
                self.node.handle_message(message);
                self.collect(&arrived);
                if self.node.current_term() == header.term && !self.is_leader() {
                    self.hear(now, header.from);
                }
            }
            Message::AppendEntriesReply { header, last_position } => {
                if self.is_leader() && header.term == self.node.current_term() {
                    self.sent.note_answer(now, header.term, header.from, *last_position);
                }
                self.node.handle_message(message);
                self.collect(&BTreeMap::new());
            }
            Message::RequestVoteReply { .. } => {
                self.node.handle_message(message);
                self.collect(&BTreeMap::new());
            }
        }
    }

    /// The library judges a candidate's log by its length and sticks to its vote for a leader for
    /// as long as it has no reason to stand itself; it is told what makes it judge rightly.
    fn receive_vote_call(&mut self, now: Instant, header: MessageHeader, last: LogPosition) {
        let own = self.node.log().last_position();
        let newer = (last.term, last.index) >= (own.term, own.index);
        let index = if newer { last.index.max(own.index) } else { LogIndex::ZERO };
        let bound = self.node.voted_for().is_some_and(|voter| voter != header.from);
        if header.term > self.node.current_term() && bound && self.node.role().is_follower() {
            if self.hears_leader(now) {
                return;
            }
            self.enter_term(header.term);
        }
        if !newer && own.index == LogIndex::ZERO {
            return;
        }
        let last_position = LogPosition { term: last.term, index };
        self.node.handle_message(Message::RequestVoteCall { header, last_position });
        self.collect(&BTreeMap::new());
    }

    /// Lets the library accept entries from the leader of its term although it stood in that term
    /// itself or voted for another. The vote it changes can elect nobody: that term has a leader.
    fn follow(&mut self, header: MessageHeader) {
        let bound = self.node.voted_for().is_some_and(|voter| voter != header.from);
        let candidate = self.node.role() == Role::Candidate;
        if header.term == self.node.current_term() && (candidate || bound) {
            assert!(!self.is_leader(), "two leaders in one term: {:?}", header.term);
            let log = self.node.log().clone();
            self.node = Node::restart(self.me, header.term, Some(header.from), log);
        }
    }

    fn hear(&mut self, now: Instant, leader: Voter) {
        let again = self.leader == Some(leader) && self.leader_term == self.node.current_term();
        if self.leader_lost && again {
            return; // What it had sent before it resigned may have waited for its disk.
        }
        self.leader = Some(leader);
        self.leader_term = self.node.current_term();
        self.heard_at = now;
        self.leader_lost = false;
        self.backers.clear();
    }

    /// Enters a newer term without a vote in it. A message of that term that means nothing else
    /// does it.
    fn enter_term(&mut self, term: Term) {
        assert!(!self.is_leader(), "a leader enters a newer term only when told of it");
        let header = MessageHeader { from: self.me, term, seqno: MessageSeqNo::new(0) };
        self.node.handle_message(Message::RequestVoteReply { header, vote_granted: false });
        self.collect(&BTreeMap::new());
    }

    /// The election timer has fired: asks the voters whether it is time for another leader.
    pub(crate) fn timeout(&mut self) {
        if self.is_leader() || !self.is_voter() {
            return;
        }
        self.backers = BTreeSet::from([self.me]);
        if self.backed() {
            self.stand();
            return;
        }
        let term = self.node.current_term();
        let last = self.node.log().last_position();
        let config = self.node.config();
        let others: Vec<Voter> = voters(config).filter(|voter| *voter != self.me).collect();
        for voter in others {
            self.outputs.push(Output::Send(voter, ControlMessage::PreVote { term, last }));
        }
        self.outputs.push(Output::Arm);
    }

    /// The leader resigns and wants this member to lead: stands at once, as all have been told that
    /// they need not back the leader any more.
    pub(crate) fn succeed(&mut self) {
        if !self.is_leader() && self.is_voter() {
            self.stand();
        }
    }

    /// Answers whether this member would vote for the asker now.
    pub(crate) fn receive_pre_vote(
        &mut self,
        now: Instant,
        from: Voter,
        asked: Term,
        last: LogPosition,
    ) {
        let own = self.node.log().last_position();
        let term = self.node.current_term();
        let newer = (last.term, last.index) >= (own.term, own.index);
        let granted = newer && asked >= term && !self.is_leader() && !self.hears_leader(now);
        let reply = ControlMessage::PreVoteReply { asked, term, granted };
        self.outputs.push(Output::Send(from, reply));
    }

    /// Takes an answer to `PreVote`; stands for election when enough would vote for this member.
    pub(crate) fn receive_pre_vote_reply(
        &mut self,
        from: Voter,
        asked: Term,
        term: Term,
        granted: bool,
    ) {
        // Without backers no question is open: the answer is late, and there may be a leader.
        if self.is_leader() || self.backers.is_empty() {
            return;
        }
        if term > self.node.current_term() {
            self.enter_term(term);
            self.backers = BTreeSet::from([self.me]);
        } else if granted && asked == self.node.current_term() {
            self.backers.insert(from);
            if self.backed() {
                self.stand();
            }
        }
    }

    fn stand(&mut self) {
        self.backers.clear();
        self.node.handle_election_timeout();
        self.collect(&BTreeMap::new());
    }

    fn backed(&self) -> bool {
        let config = self.node.config();
        let majority = |voters: &BTreeSet<Voter>| {
            voters.intersection(&self.backers).count() > voters.len() / 2
        };
        majority(&config.voters) && (config.new_voters.is_empty() || majority(&config.new_voters))
    }

    /// The leader is known to lead no more: do not wait for its silence.
    pub(crate) fn lose_leader(&mut self) {
        if !self.is_leader() && !self.leader_lost {
            self.leader_lost = true;
            self.outputs.push(Output::Arm);
        }
    }

    /// Whether nobody leads, as far as this member can know: an election need not wait. Members
    /// that hear a leader all the same refuse to back it (`PreVote`).
    pub(crate) fn leader_lost(&self) -> bool {
        self.leader_lost
    }

    fn hears_leader(&self, now: Instant) -> bool {
        let known = self.leader.is_some() && self.leader_term == self.node.current_term();
        known && !self.leader_lost && now.since(self.heard_at) < self.election_timeout
    }

    /// Appends a command to the log of the leader; false when this member does not lead.
    pub(crate) fn propose(&mut self, command: Arc<Command>) -> bool {
        let position = self.node.propose_command();
        if position.is_invalid() {
            return false;
        }
        self.collect(&BTreeMap::from([(position.index.get(), command)]));
        true
    }

    /// Appends a change of the voters; false when this member does not lead, or the change before
    /// is not complete.
    pub(crate) fn propose_config(&mut self, config: ClusterConfig) -> bool {
        if !self.config_settled() || self.node.propose_config(config).is_invalid() {
            return false;
        }
        self.collect(&BTreeMap::new());
        true
    }

    /// Whether this member leads, and its followers do not know of the newest committed entry.
    pub(crate) fn has_news(&self) -> bool {
        self.is_leader() && self.announced < self.committed()
    }

    /// Tells all followers that this member leads, and what is committed.
    pub(crate) fn heartbeat(&mut self) {
        self.announced = self.committed();
        self.node.heartbeat();
        self.collect(&BTreeMap::new());
    }

    /// Leads no more: enters a newer term as a follower, so that another may be elected.
    pub(crate) fn resign(&mut self) {
        assert!(self.is_leader(), "only a leader resigns");
        // It is not in a hurry to be the next one.
        (self.leader, self.leader_lost) = (None, false);
        let term = Term::new(self.node.current_term().get() + 1);
        let header = MessageHeader { from: self.me, term, seqno: MessageSeqNo::new(0) };
        self.node.handle_message(Message::RequestVoteReply { header, vote_granted: false });
        self.collect(&BTreeMap::new());
    }

    /// The library counts answers to commit; a sole voter without followers gets none. Elected
    /// anew as sole voter it commits by itself.
    pub(crate) fn stand_again_if_alone(&mut self) -> bool {
        let config = self.node.config();
        let alone = config.voters.len() == 1 && config.voters.contains(&self.me);
        let stuck = self.node.commit_index() < self.node.log().last_position().index;
        if !self.is_leader() || !alone || config.is_joint_consensus() || !stuck {
            return false;
        }
        self.resign();
        self.stand();
        true
    }

    /// The same for a sole voter that nobody follows, as one is when a change of voters has just
    /// ended with it: no answer can come that would commit anything, so nothing is waited for.
    pub(crate) fn stand_again_if_deserted(&mut self) -> bool {
        self.node.config().non_voters.is_empty() && self.stand_again_if_alone()
    }

    /// The next committed entry: its index and its command, if it is one.
    pub(crate) fn next_committed(&mut self) -> Option<(u64, Option<Arc<Command>>)> {
        if self.applied >= self.node.commit_index().get().min(self.kept) {
            return None;
        }
        self.applied += 1;
        let entry = self.node.log().entries().get_entry(LogIndex::new(self.applied));
        let command = match entry.expect("the log keeps what has not been handed out") {
            LogEntry::Command => {
                Some(self.commands.get(&self.applied).expect("a command entry has its command"))
            }
            LogEntry::Term(_) | LogEntry::ClusterConfig(_) => None,
        };
        Some((self.applied, command.cloned()))
    }

    /// Commands in the log that are not yet handed out, oldest first.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Arc<Command>> {
        self.commands.range(self.applied + 1..).map(|(_, command)| command)
    }

    /// Forgets the applied part of the log once it is long: `least` entries at least.
    pub(crate) fn compact(&mut self, least: u64) {
        let kept_from = self.node.log().snapshot_position().index.get();
        if self.applied < kept_from + COMPACT_AFTER.max(least) {
            return;
        }
        let (position, config) = self.position();
        if self.node.handle_snapshot_installed(position, config) {
            self.commands = self.commands.split_off(&(self.applied + 1));
            if let Some(journal) = &mut self.journal {
                journal.compacted = true;
            }
        }
    }

    /// The position and configuration of the last entry handed out.
    pub(crate) fn position(&self) -> (LogPosition, ClusterConfig) {
        let found = self.node.log().get_position_and_config(LogIndex::new(self.applied));
        let (position, config) = found.expect("the log keeps the last applied position");
        (position, config.clone())
    }

    /// Replaces the log up to `last` by a state that the caller takes over; false when this member
    /// has applied as much already.
    pub(crate) fn install(
        &mut self,
        now: Instant,
        cluster: ClusterId,
        from: Voter,
        term: Term,
        last: LogPosition,
        config: ClusterConfig,
    ) -> bool {
        if !self.may_belong_to(cluster)
            || term < self.node.current_term()
            || last.index.get() <= self.applied
        {
            return false;
        }
        if self.is_leader() || !self.node.handle_snapshot_installed(last, config) {
            return false;
        }
        self.cluster = cluster;
        self.applied = last.index.get();
        self.commands = self.commands.split_off(&(self.applied + 1));
        self.rebase();
        self.collect(&BTreeMap::new());
        if term == self.node.current_term() {
            self.hear(now, from);
        }
        true
    }

    /// What is to be done since the last call.
    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// Whether this member leads.
    pub(crate) fn is_leader(&self) -> bool {
        self.node.role().is_leader()
    }

    /// The rule that entries of a leader of this term break, if they break one.
    ///
    /// What is of another cluster, or of a term that is over, breaks none: it is dropped, or
    /// answered with the newer term. A leader that was followed by another may have sent what the
    /// newer one has had replaced here since.
    pub(crate) fn broken_by(
        &self,
        cluster: ClusterId,
        term: Term,
        entries: &LogEntries,
    ) -> Option<&'static str> {
        if cluster != self.cluster || !self.has_log() || term < self.node.current_term() {
            return None;
        }
        if self.is_leader() && self.node.current_term() == term {
            return Some("a term has one leader");
        }
        let other = self.first_difference(entries)?;
        // A leader has all that was committed before its term.
        let contradicts = other.index <= self.node.commit_index();
        contradicts.then_some("the control log contradicts what was committed")
    }

    /// The first of these positions, that before the entries included, at which this member's log
    /// has an entry of another term.
    fn first_difference(&self, entries: &LogEntries) -> Option<LogPosition> {
        let own = self.node.log().entries();
        let positions = entries.iter_with_positions().map(|(position, _)| position);
        std::iter::once(entries.prev_position())
            .chain(positions)
            .find(|at| own.contains_index(at.index) && !own.contains(*at))
    }

    /// Gives up the entries from the first on in which the log differs from that of a leader.
    ///
    /// The library does so by itself where the difference is in the entry before those that the
    /// leader sends, or where a term begins. A leader that has heard of a follower's end before
    /// that follower's life ended sends it entries that the next life has others in place of: it
    /// has forgotten that it had given them up.
    fn give_up_others(&mut self, header: MessageHeader, entries: &LogEntries) {
        let Some(other) = self.first_difference(entries) else { return };
        if other == entries.prev_position() || other.index <= self.node.commit_index() {
            return;
        }
        let (commit_index, entries) = (LogIndex::ZERO, LogEntries::new(other));
        self.node.handle_message(Message::AppendEntriesCall { header, commit_index, entries });
    }

    /// Whether this member leads and has applied everything that was committed before its term.
    pub(crate) fn is_ready(&self) -> bool {
        let term = self.node.log().entries().get_term(LogIndex::new(self.applied));
        self.is_leader()
            && self.applied == self.node.commit_index().get()
            && term == Some(self.node.current_term())
    }

    /// Whether this member votes, now or after the change under way.
    pub(crate) fn is_voter(&self) -> bool {
        voters(self.node.config()).any(|voter| voter == self.me)
    }

    /// Whether no change of the voters is under way.
    pub(crate) fn config_settled(&self) -> bool {
        let committed = self.node.log().get_position_and_config(self.node.commit_index());
        let latest = self.node.config();
        !latest.is_joint_consensus() && committed.is_some_and(|(_, config)| config == latest)
    }

    /// The newest configuration of the consensus.
    pub(crate) fn config(&self) -> &ClusterConfig {
        self.node.config()
    }

    /// The cluster whose log this is, once there is any.
    pub(crate) fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Whether a log of this cluster is, or may become, this member's.
    fn may_belong_to(&self, cluster: ClusterId) -> bool {
        self.cluster == cluster || !self.has_log()
    }

    /// The current term.
    pub(crate) fn term(&self) -> Term {
        self.node.current_term()
    }

    /// Who leads the current term, as far as known; this member itself included.
    pub(crate) fn leader(&self) -> Option<Voter> {
        if self.is_leader() {
            return Some(self.me);
        }
        self.leader.filter(|_| self.leader_term == self.node.current_term() && !self.leader_lost)
    }

    /// Who led the current term last, also if it is known to lead no more.
    pub(crate) fn led_by(&self) -> Option<Voter> {
        self.leader.filter(|_| self.leader_term == self.node.current_term())
    }

    /// The index up to which the log is committed.
    pub(crate) fn committed(&self) -> u64 {
        self.node.commit_index().get()
    }

    /// The last entry handed out.
    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    /// Whether this member has anything of a cluster's log.
    pub(crate) fn has_log(&self) -> bool {
        self.node.log().last_position() != LogPosition::ZERO
    }

    /// Panics when the commands do not fit the log.
    pub(crate) fn check(&self) {
        let log = self.node.log();
        let first = log.snapshot_position().index.get();
        let last = log.last_position().index.get();
        assert!(self.applied >= first, "entries forgotten before they were applied");
        assert!(self.applied <= last, "entries applied that the log does not have");
        for index in self.commands.keys() {
            assert!(*index > first && *index <= last, "a command outside the log");
        }
    }

    fn rebase(&mut self) {
        if let Some(journal) = &mut self.journal {
            *journal = Journal { rebase: true, ..Journal::default() };
        }
    }

    /// Notes for the disk that the vote, or the term, is another one.
    fn note_vote(&mut self) {
        let vote = self.vote();
        if let Some(journal) = &mut self.journal
            && journal.records.last() != Some(&vote)
        {
            journal.records.push(vote);
        }
    }

    /// Notes for the disk that these entries replace all from theirs on.
    fn note_entries(&mut self, entries: &LogEntries) {
        if self.journal.is_none() {
            return;
        }
        let after = entries.prev_position();
        self.kept = self.kept.min(after.index.get());
        let kept = entries.iter_with_positions();
        let kept = kept.map(|(position, entry)| self.keep_entry(position, entry)).collect();
        let record = Record::Append { cluster: self.cluster, after: after.into(), entries: kept };
        self.journal.as_mut().expect("checked above").records.push(record);
    }

    /// Carries out what the library asked for. `arrived` has the commands of new entries.
    fn collect(&mut self, arrived: &BTreeMap<u64, Arc<Command>>) {
        // Messages are built from the log, so entries come first whatever the library's order.
        if let Some(entries) = self.node.actions_mut().append_log_entries.take() {
            let first = entries.prev_position().index.get() + 1;
            self.commands.split_off(&first);
            for (position, entry) in entries.iter_with_positions() {
                if entry == LogEntry::Command {
                    let index = position.index.get();
                    let command = arrived.get(&index).expect("an entry arrives with its command");
                    self.commands.insert(index, command.clone());
                }
            }
            self.note_entries(&entries);
        }
        let end = self.node.log().last_position().index.get() + 1;
        self.commands.split_off(&end);
        while let Some(action) = self.node.actions_mut().next() {
            match action {
                Action::SetElectionTimeout => self.outputs.push(Output::Arm),
                Action::SaveCurrentTerm | Action::SaveVotedFor => self.note_vote(),
                Action::AppendLogEntries(_) => {}
                Action::BroadcastMessage(message) => {
                    let peers: Vec<Voter> = self.node.peers().collect();
                    self.sent.retain(&peers);
                    for peer in peers {
                        if let Message::AppendEntriesCall { header, entries, .. } = &message {
                            self.sent.note_broadcast(self.now, header.term, peer, entries);
                        }
                        let message = self.with_commands(message.clone());
                        self.outputs.push(Output::Send(peer, message));
                    }
                }
                Action::SendMessage(peer, message) => {
                    if let Some(message) = self.unless_under_way(peer, message) {
                        let message = self.with_commands(message);
                        self.outputs.push(Output::Send(peer, message));
                    }
                }
                Action::InstallSnapshot(peer) => self.outputs.push(Output::Install(peer)),
            }
        }
    }

    /// The library sends a follower all that it lacks whenever it answers anything; with many
    /// entries under way each of them would go as often as there are answers.
    fn unless_under_way(&mut self, follower: Voter, message: Message) -> Option<Message> {
        match message {
            Message::AppendEntriesCall { header, commit_index, entries } if !entries.is_empty() => {
                let entries = self.sent.admit(self.now, header.term, follower, &entries)?;
                Some(Message::AppendEntriesCall { header, commit_index, entries })
            }
            other => Some(other),
        }
    }

    fn with_commands(&self, message: Message) -> ControlMessage {
        let mut commands = Vec::new();
        if let Message::AppendEntriesCall { entries, .. } = &message {
            for (position, entry) in entries.iter_with_positions() {
                if entry == LogEntry::Command {
                    let command = self.commands.get(&position.index.get());
                    commands.push(command.expect("an entry that is sent has its command").clone());
                }
            }
        }
        ControlMessage::Raft { cluster: self.cluster, message, commands }
    }
}

/// Everyone whose vote counts in this configuration.
pub(crate) fn voters(config: &ClusterConfig) -> impl Iterator<Item = Voter> + '_ {
    config.voters.union(&config.new_voters).copied()
}

/// The commands of a message by log index; `None` when their number does not fit its entries.
fn pair(entries: &LogEntries, commands: &[Arc<Command>]) -> Option<BTreeMap<u64, Arc<Command>>> {
    let indexes = entries.iter_with_positions().filter(|(_, entry)| *entry == LogEntry::Command);
    let indexes: Vec<u64> = indexes.map(|(position, _)| position.index.get()).collect();
    (indexes.len() == commands.len())
        .then(|| indexes.into_iter().zip(commands.iter().cloned()).collect())
}

#[cfg(test)]
mod tests;
