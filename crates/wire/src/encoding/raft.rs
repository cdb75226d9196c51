//! The messages of the consensus library: through types of ours that look the same.

use std::collections::BTreeSet;

use codec::Codec;
use raftbare::{LogEntries, LogEntry, LogIndex, MessageHeader, MessageSeqNo};

/// What counters stay below. The library adds to them without looking.
const COUNTER_MAX: u64 = 1 << 62;

fn is_count(number: &u64) -> bool {
    *number < COUNTER_MAX
}

/// A term of a leader.
#[derive(Codec)]
struct Term(#[codec(check = is_count)] u64);

/// A place in the log.
#[derive(Codec)]
struct LogPosition {
    #[codec(check = is_count)]
    term: u64,
    #[codec(check = is_count)]
    index: u64,
}

/// Who belongs to the consensus.
#[derive(Codec)]
struct ClusterConfig {
    voters: BTreeSet<Voter>,
    new_voters: BTreeSet<Voter>,
    learners: BTreeSet<Voter>,
}

/// A member's name: a node and one of its lives.
#[derive(Codec, PartialEq, Eq, PartialOrd, Ord)]
struct Voter(#[codec(with = codec::fixed)] u64);

/// An entry of the log, whose content is elsewhere if it is a command.
#[derive(Codec)]
enum Entry {
    Term(Term),
    Config(ClusterConfig),
    Command,
}

/// What every message begins with.
#[derive(Codec)]
struct RaftHeader {
    from: Voter,
    term: Term,
    #[codec(check = is_count)]
    sequence: u64,
}

/// A message of the library.
#[derive(Codec)]
enum RaftMessage {
    RequestVoteCall {
        header: RaftHeader,
        last: LogPosition,
    },
    RequestVoteReply {
        header: RaftHeader,
        granted: bool,
    },
    AppendEntriesCall {
        header: RaftHeader,
        #[codec(check = is_count)]
        committed: u64,
        after: LogPosition,
        entries: Vec<Entry>,
    },
    AppendEntriesReply {
        header: RaftHeader,
        last: LogPosition,
    },
}

macro_rules! through {
    ($($module:ident: $theirs:ident as $ours:ident;)*) => {$(
        pub(crate) mod $module {
            use codec::{Decode, DecodeError, Describe, Encode, Format, Reader, Shape, Writer};

            pub(crate) fn encode(value: &raftbare::$theirs, out: &mut Writer) {
                super::$ours::from(value).encode(out);
            }

            pub(crate) fn decode(
                input: &mut Reader<'_>,
            ) -> Result<raftbare::$theirs, DecodeError> {
                super::$ours::decode(input).map(Into::into)
            }

            pub(crate) fn describe(format: &mut Format) -> Shape {
                super::$ours::describe(format)
            }
        }
    )*};
}

through! {
    term: Term as Term;
    position: LogPosition as LogPosition;
    config: ClusterConfig as ClusterConfig;
    message: Message as RaftMessage;
}

impl From<&raftbare::Term> for Term {
    fn from(term: &raftbare::Term) -> Self {
        Self(term.get())
    }
}

impl From<Term> for raftbare::Term {
    fn from(term: Term) -> Self {
        Self::new(term.0)
    }
}

impl From<&raftbare::LogPosition> for LogPosition {
    fn from(position: &raftbare::LogPosition) -> Self {
        Self { term: position.term.get(), index: position.index.get() }
    }
}

impl From<LogPosition> for raftbare::LogPosition {
    fn from(position: LogPosition) -> Self {
        Self { term: raftbare::Term::new(position.term), index: LogIndex::new(position.index) }
    }
}

impl From<&raftbare::ClusterConfig> for ClusterConfig {
    fn from(config: &raftbare::ClusterConfig) -> Self {
        let voters =
            |nodes: &BTreeSet<raftbare::NodeId>| nodes.iter().map(|n| Voter(n.get())).collect();
        Self {
            voters: voters(&config.voters),
            new_voters: voters(&config.new_voters),
            learners: voters(&config.non_voters),
        }
    }
}

impl From<ClusterConfig> for raftbare::ClusterConfig {
    fn from(config: ClusterConfig) -> Self {
        let nodes = |voters: BTreeSet<Voter>| {
            voters.into_iter().map(|voter| raftbare::NodeId::new(voter.0)).collect()
        };
        let mut theirs = Self::new();
        theirs.voters = nodes(config.voters);
        theirs.new_voters = nodes(config.new_voters);
        theirs.non_voters = nodes(config.learners);
        theirs
    }
}

impl From<&LogEntry> for Entry {
    fn from(entry: &LogEntry) -> Self {
        match entry {
            LogEntry::Term(term) => Entry::Term(term.into()),
            LogEntry::ClusterConfig(config) => Entry::Config(config.into()),
            LogEntry::Command => Entry::Command,
        }
    }
}

impl From<Entry> for LogEntry {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Term(term) => LogEntry::Term(term.into()),
            Entry::Config(config) => LogEntry::ClusterConfig(config.into()),
            Entry::Command => LogEntry::Command,
        }
    }
}

impl From<&MessageHeader> for RaftHeader {
    fn from(header: &MessageHeader) -> Self {
        Self {
            from: Voter(header.from.get()),
            term: (&header.term).into(),
            sequence: header.seqno.get(),
        }
    }
}

impl From<RaftHeader> for MessageHeader {
    fn from(header: RaftHeader) -> Self {
        Self {
            from: raftbare::NodeId::new(header.from.0),
            term: header.term.into(),
            seqno: MessageSeqNo::new(header.sequence),
        }
    }
}

impl From<&raftbare::Message> for RaftMessage {
    fn from(message: &raftbare::Message) -> Self {
        use raftbare::Message;
        match message {
            Message::RequestVoteCall { header, last_position } => {
                Self::RequestVoteCall { header: header.into(), last: last_position.into() }
            }
            Message::RequestVoteReply { header, vote_granted } => {
                Self::RequestVoteReply { header: header.into(), granted: *vote_granted }
            }
            Message::AppendEntriesCall { header, commit_index, entries } => {
                Self::AppendEntriesCall {
                    header: header.into(),
                    committed: commit_index.get(),
                    after: (&entries.prev_position()).into(),
                    entries: entries.iter().map(|entry| Entry::from(&entry)).collect(),
                }
            }
            Message::AppendEntriesReply { header, last_position } => {
                Self::AppendEntriesReply { header: header.into(), last: last_position.into() }
            }
        }
    }
}

impl From<RaftMessage> for raftbare::Message {
    fn from(message: RaftMessage) -> Self {
        match message {
            RaftMessage::RequestVoteCall { header, last } => {
                Self::RequestVoteCall { header: header.into(), last_position: last.into() }
            }
            RaftMessage::RequestVoteReply { header, granted } => {
                Self::RequestVoteReply { header: header.into(), vote_granted: granted }
            }
            RaftMessage::AppendEntriesCall { header, committed, after, entries } => {
                let entries = entries.into_iter().map(LogEntry::from);
                Self::AppendEntriesCall {
                    header: header.into(),
                    commit_index: LogIndex::new(committed),
                    entries: LogEntries::from_iter(after.into(), entries),
                }
            }
            RaftMessage::AppendEntriesReply { header, last } => {
                Self::AppendEntriesReply { header: header.into(), last_position: last.into() }
            }
        }
    }
}
