//! The file of the control log: what is read is what was written, and nothing else.

use model::{Command, NodeId, TableId};

use super::*;

fn base(index: u64) -> Record {
    let last = LogPosition { term: Term::new(3), index: LogIndex::new(index) };
    let mut config = ClusterConfig::new();
    config.voters = BTreeSet::from([Voter::new(1), Voter::new(2)]);
    config.non_voters = BTreeSet::from([Voter::new(9)]);
    Record::base(ClusterId(7), Incarnation(4), last, &config, &ClusterState::default())
}

fn append(after: u64, terms: &[u64]) -> Record {
    let after = Position { term: 3, index: after };
    let leave = Command::Leave { node: NodeId(1), incarnation: Incarnation(2) };
    let mut entries: Vec<Entry> = terms.iter().map(|term| Entry::Term(*term)).collect();
    entries.push(Entry::Command(Arc::new(leave)));
    Record::Append { cluster: ClusterId(7), after, entries }
}

fn file() -> (Vec<u8>, Vec<usize>) {
    let frames = [
        vec![base(10), Record::Vote { term: 3, voted_for: None }],
        vec![append(10, &[4, 5])],
        vec![Record::Vote { term: 6, voted_for: Some(2) }, append(11, &[6])],
    ];
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for frame in frames {
        write(&frame, &mut bytes);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

#[test]
fn a_file_gives_back_what_was_written() {
    let (bytes, _) = file();
    let stored = read(&bytes).unwrap();
    assert_eq!((stored.term, stored.voted_for), (6, Some(2)));
    assert_eq!((stored.voter, stored.cluster), (Incarnation(4), ClusterId(7)));
    // The second append replaced all after the first entry of the one before.
    let terms: Vec<&Entry> = stored.entries.iter().collect();
    assert_eq!(terms.len(), 3);
    assert_eq!(*terms[0], Entry::Term(4));
    assert_eq!(*terms[1], Entry::Term(6));
    assert_eq!(stored.log_entries().last_position().index.get(), 13);
    let config = ClusterConfig::from(&stored.members);
    assert_eq!(config.non_voters, BTreeSet::from([Voter::new(9)]));
}

#[test]
fn a_file_cut_anywhere_holds_the_frames_before_the_cut() {
    let (bytes, ends) = file();
    for length in 0..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= length).count();
        match read(&bytes[..length]) {
            Err(error) => assert_eq!((whole, error), (0, ReadError::NoBase)),
            Ok(stored) => assert_eq!(stored.entries.len(), [0, 0, 3, 3][whole], "cut at {length}"),
        }
    }
}

#[test]
fn damage_before_the_last_frame_is_told_from_an_end_that_was_not_written() {
    let (bytes, ends) = file();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let frame = ends.iter().filter(|end| **end <= at).count();
        match (frame, read(&damaged)) {
            (0, Err(ReadError::NoBase)) | (1, Err(ReadError::Damaged(_))) => {}
            (2, Ok(stored)) => assert_eq!(stored.entries.len(), 3),
            (_, other) => panic!("byte {at} of frame {frame}: {other:?}"),
        }
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name() {
    let mut newer = base(1);
    let Record::Base { version, .. } = &mut newer else { unreachable!() };
    *version += 1;
    let mut bytes = Vec::new();
    write(&[newer], &mut bytes);
    assert_eq!(read(&bytes).unwrap_err(), ReadError::Version(VERSION + 1));
}

#[test]
fn names_of_files_are_their_numbers() {
    assert_eq!(path(26), "control/log-000000000000001a");
    assert_eq!(number("log-000000000000001a"), Some(26));
    assert_eq!(number("new"), None);
    assert_eq!(number("log-1a"), None);
}

/// A state with this many tables, and the file that begins with it.
fn with_tables(count: usize) -> (ClusterState, Vec<Vec<u8>>) {
    let mut state = ClusterState::default();
    for number in 1..=count as u32 {
        let name: Arc<str> = format!("d{number}.t{number}").into();
        let description: Arc<[u8]> = vec![7; if number % 50 == 0 { 40_000 } else { 30 }].into();
        let table = testing::table(&*name)
            .id(TableId(number))
            .column("id", testing::BIGINT)
            .partitions(4)
            .description(description.clone())
            .build();
        state.tables.insert(table.id, Arc::new(table));
        state.table_names.insert(name, TableId(number));
        state.databases.insert(format!("d{number}").into(), description.clone());
        state.accounts.insert(format!("u{number}").into(), description);
    }
    let last = LogPosition { term: Term::new(3), index: LogIndex::new(10) };
    let base = Record::base(ClusterId(7), Incarnation(4), last, &ClusterConfig::new(), &state);
    let pieces = model::cluster::Pieces::of(Arc::new(state.clone())).map(Record::Piece);
    let frames = std::iter::once(base).chain(pieces).map(|record| {
        let mut bytes = Vec::new();
        write(&[record], &mut bytes);
        bytes
    });
    (state, frames.collect())
}

#[test]
fn a_large_catalog_is_written_in_pieces() {
    for tables in [0, 1, 7, 24, 25, 120] {
        let (state, frames) = with_tables(tables);
        assert_eq!(state.tables.len(), tables);
        let longest = frames.iter().map(Vec::len).max().unwrap();
        assert!(longest < 500_000 && frames.len() > tables / 24, "{longest} in {}", frames.len());
        let mut bytes = frames.concat();
        write(&[append(10, &[4])], &mut bytes);
        let stored = read(&bytes).unwrap();
        assert_eq!((&*stored.state, stored.entries.len()), (&state, 2));
    }
}

#[test]
fn a_file_without_all_of_its_catalog_is_none() {
    let (_, frames) = with_tables(60);
    for missing in 1..frames.len() {
        let cut = frames[..missing].concat();
        assert_eq!(read(&cut).err(), Some(ReadError::NoBase), "{missing} of {}", frames.len());
        let mut hole = frames.clone();
        hole.remove(missing);
        let mut hole = hole.concat();
        write(&[append(10, &[4])], &mut hole);
        assert!(read(&hole).is_err(), "without {missing} of {}", frames.len());
        let mut twice = frames.clone();
        twice.insert(missing, frames[missing].clone());
        assert!(read(&twice.concat()).is_err(), "{missing} twice");
    }
}
