//! What is encoded comes back, and nothing else does harm; two versions of a type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use stdx::{Duration, Few, Instant, Prng};

use crate::*;

fn bytes<T: Encode>(version: u16, value: &T) -> Vec<u8> {
    let mut out = Writer::new(version);
    out.attempt(|out| value.encode(out)).expect("it can be said");
    out.bytes().to_vec()
}

fn value<T: Decode>(version: u16, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut input = Reader::new(version, bytes);
    let value = T::decode(&mut input)?;
    input.finish().map(|()| value)
}

#[track_caller]
fn comes_back<T: Encode + Decode + PartialEq + Debug>(original: T) {
    let encoded = bytes(1, &original);
    assert_eq!(value::<T>(1, &encoded).as_ref(), Ok(&original));
    for end in 0..encoded.len() {
        assert!(value::<T>(1, &encoded[..end]).is_err(), "{end} bytes of {original:?}");
    }
    let longer = [&encoded[..], &[0]].concat();
    assert_eq!(value::<T>(1, &longer).unwrap_err().problem(), Problem::Trailing);
}

#[test]
fn varints_of_every_length() {
    for bits in 0..64 {
        for number in [1 << bits, (1 << bits) - 1, 1 << bits | 1] {
            comes_back::<u64>(number);
            let size = (64 - u64::leading_zeros(number | 1)).div_ceil(7).min(9);
            assert_eq!(bytes(1, &number).len(), size as usize, "{number}");
        }
    }
    comes_back(u64::MAX);
    assert_eq!(bytes(1, &127_u64), [255]);
    assert_eq!(bytes(1, &128_u64), [2, 2]);
    assert_eq!(bytes(1, &300_u64), [0b1011_0010, 0b100]);
    assert_eq!(bytes(1, &u64::MAX), [0, 255, 255, 255, 255, 255, 255, 255, 255]);
}

#[test]
fn varints_among_others() {
    let mut prng = Prng::new(1);
    let numbers: Vec<u64> = (0..10_000).map(|_| prng.next_u64() >> prng.below(64)).collect();
    comes_back_whole(&numbers);
    let signed: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
    comes_back_whole(&signed);
}

fn comes_back_whole<T: Encode + Decode + PartialEq + Debug>(original: &Vec<T>) {
    assert_eq!(value::<Vec<T>>(1, &bytes(1, original)).as_ref(), Ok(original));
}

#[test]
fn values_come_back() {
    for number in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
        comes_back(number);
    }
    assert_eq!((bytes(1, &-64_i64).len(), bytes(1, &64_i64).len()), (1, 2));
    comes_back(-0.5_f64);
    comes_back((true, 7_u8, u16::MAX));
    comes_back("Größe".to_string());
    comes_back(Instant::FAR_FUTURE);
    comes_back(Duration::from_millis(1));
    comes_back(vec![1_u32, u32::MAX]);
    comes_back::<Box<[u8]>>(Box::new([0, 255]));
    comes_back::<Arc<[u8]>>(Arc::new([3]));
    comes_back(Arc::new(Box::new(5_u64)));
    comes_back(vec![Some(1_u8), None]);
    comes_back(vec![Ok::<u8, String>(1), Err("no".into())]);
    comes_back(BTreeSet::from([1_u64, 1_000]));
    comes_back(BTreeMap::from([(1_u64, true), (1_000, false)]));
    comes_back((1_u8, 2_u8, 3_u8, 4_u8));
    for count in 0..4 {
        comes_back(vec![7_u16; count].into_iter().collect::<Few<u16>>());
    }
    let nan = value::<f64>(1, &bytes(1, &f64::NAN)).unwrap();
    assert_eq!(nan.to_bits(), f64::NAN.to_bits());
}

#[test]
fn what_does_not_fit_is_refused() {
    let problem = |error: DecodeError| error.problem();
    assert_eq!(value::<u16>(1, &bytes(1, &65_536_u64)).map_err(problem), Err(Problem::Range));
    assert_eq!(value::<u32>(1, &bytes(1, &(1_u64 << 32))).map_err(problem), Err(Problem::Range));
    assert_eq!(value::<bool>(1, &[2]).map_err(problem), Err(Problem::Range));
    assert_eq!(value::<Option<u8>>(1, &[2, 0]).map_err(problem), Err(Problem::Range));
    assert_eq!(value::<String>(1, &[3, 0xFF]).map_err(problem), Err(Problem::Text));
    let twice = [5, 3, 3];
    assert_eq!(value::<BTreeSet<u16>>(1, &twice).map_err(problem), Err(Problem::Invalid));
    let twice = [5, 3, 0, 3, 0];
    assert_eq!(value::<BTreeMap<u16, u8>>(1, &twice).map_err(problem), Err(Problem::Invalid));
    assert_eq!(value::<u8>(1, &[1, 2]).map_err(problem), Err(Problem::Trailing));
}

#[test]
fn a_length_allocates_nothing_large() {
    for length in [5, 1_000, u64::MAX / 2, u64::MAX] {
        let mut input = bytes(1, &length);
        input.extend([1; 4]);
        let error = value::<Vec<u64>>(1, &input).unwrap_err();
        assert_eq!((error.problem(), error.offset()), (Problem::Length, 0), "{length}");
        assert!(value::<String>(1, &input).is_err() && value::<Few<u8>>(1, &input).is_err());
    }
    // As many elements as there are bytes, each of 2,048 bytes in memory: no room before they come.
    struct Wide([u64; 256]);
    impl Decode for Wide {
        fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
            Ok(Wide([input.u8()?.into(); 256]))
        }
    }
    let input = [9; 1_000];
    let all = Wide::decode_all(1, &mut Reader::new(1, &input)).unwrap();
    assert_eq!((all.len(), all.capacity(), all[0].0[9]), (1, 1, 9));
    let all = Wide::decode_all(600, &mut Reader::new(1, &input)).unwrap();
    assert!(all.len() == 600 && all.capacity() < 1_200, "{}", all.capacity());
    let all = u64::decode_all(1_000, &mut Reader::new(1, &input)).unwrap();
    assert_eq!((all.len(), all.capacity()), (1_000, 1_000), "a usual list has its size at once");
}

/// A message as it was in version 1, and as it is in version 2.
#[derive(Codec, Debug, PartialEq)]
struct Old {
    name: String,
    count: u32,
}

#[derive(Codec, Debug, PartialEq)]
struct New {
    name: String,
    #[codec(since = 2)]
    owner: Option<u16>,
    count: u32,
}

#[derive(Codec, Debug, PartialEq)]
enum OldMessage {
    Ask(u16),
    #[codec(tag = 7)]
    Tell {
        what: Old,
    },
}

#[derive(Codec, Debug, PartialEq)]
enum NewMessage {
    Ask(u16),
    #[codec(since = 2)]
    Forget,
    #[codec(tag = 7)]
    Tell {
        what: New,
    },
    #[codec(tag = 8, local)]
    Note {
        _thread: std::thread::ThreadId,
    },
}

#[test]
fn two_versions_understand_each_other() {
    let old = OldMessage::Tell { what: Old { name: "n".into(), count: 300 } };
    let with_owner = |owner| NewMessage::Tell { what: New { name: "n".into(), owner, count: 300 } };
    // An old program to a new one, and the other way: version 1 is what both know.
    assert_eq!(value::<NewMessage>(1, &bytes(1, &old)), Ok(with_owner(None)));
    assert_eq!(value::<OldMessage>(1, &bytes(1, &with_owner(Some(5)))), Ok(old));
    // Among themselves.
    let new = with_owner(Some(5));
    assert_eq!(value::<NewMessage>(2, &bytes(2, &new)), Ok(new));
    assert_eq!(value::<NewMessage>(2, &bytes(2, &NewMessage::Forget)), Ok(NewMessage::Forget));
}

#[test]
fn a_variant_that_the_peer_does_not_know_is_not_sent() {
    let mut out = Writer::new(1);
    out.put_u8(1);
    let refused = out.attempt(|out| vec![NewMessage::Ask(1), NewMessage::Forget].encode(out));
    let newer = EncodeError::Newer { what: "NewMessage::Forget", since: 2 };
    assert_eq!((refused, out.bytes()), (Err(newer), &[1][..]));
    assert_eq!(out.attempt(|out| NewMessage::Ask(1).encode(out)), Ok(()), "as good as before");
    assert_eq!(newer.to_string(), "NewMessage::Forget is not known before protocol version 2");
    // Nor is it taken, should somebody send it nevertheless.
    let error = value::<NewMessage>(1, &bytes(2, &NewMessage::Forget)).unwrap_err();
    assert_eq!(error.to_string(), "NewMessage at byte 0: no variant has tag 1");
}

#[test]
fn what_is_local_is_not_sent() {
    let note = NewMessage::Note { _thread: std::thread::current().id() };
    let refused = Writer::new(2).attempt(|out| note.encode(out));
    assert_eq!(refused, Err(EncodeError::Local { what: "NewMessage::Note" }));
    let error = value::<NewMessage>(2, &[8]).unwrap_err();
    assert_eq!(error.to_string(), "NewMessage::Note at byte 0: never sent between processes");
}

#[derive(Codec, Debug, PartialEq)]
#[codec(recursive)]
enum Tree {
    Leaf,
    Node(Vec<Tree>),
}

#[test]
fn depth_is_counted() {
    let tree = |depth| (0..depth).fold(Tree::Leaf, |inner, _| Tree::Node(vec![inner, Tree::Leaf]));
    comes_back(tree(3));
    let mut out = Writer::new(1);
    assert_eq!(out.attempt(|out| tree(255).encode(out)), Ok(()));
    assert_eq!(value::<Tree>(1, out.bytes()), Ok(tree(255)));
    out.clear();
    assert_eq!(out.attempt(|out| tree(256).encode(out)), Err(EncodeError::Depth));
    assert!(out.attempt(|out| tree(255).encode(out)).is_ok(), "it counts from the start again");
    // A node of one is two bytes.
    let error = value::<Tree>(1, &[1, 3].repeat(100_000)).unwrap_err();
    assert_eq!(error.to_string(), "Tree at byte 512: nested too deep");
}

#[derive(Codec, Debug, PartialEq)]
#[codec(check = is_ordered)]
struct Range {
    #[codec(check = is_even)]
    low: u32,
    high: u32,
}

fn is_even(number: &u32) -> bool {
    number.is_multiple_of(2)
}

fn is_ordered(range: &Range) -> bool {
    range.low <= range.high
}

#[test]
fn rules_are_checked() {
    comes_back(Range { low: 2, high: 3 });
    let error = value::<(u8, Range)>(1, &bytes(1, &(0_u8, (2_u32, 1_u32)))).unwrap_err();
    assert_eq!(error.to_string(), "Range at byte 1: breaks a rule of its type");
    let error = value::<Range>(1, &bytes(1, &(300_u32, 301_u32))).map(|range| range.high);
    assert_eq!(error, Ok(301));
    assert_eq!(value::<Range>(1, &bytes(1, &(3_u32, 3_u32))).unwrap_err().offset(), 0);
}

#[test]
fn errors_name_the_innermost_type() {
    let full =
        bytes(2, &NewMessage::Tell { what: New { name: "n".into(), owner: None, count: 1 } });
    let error = value::<NewMessage>(2, &full[..full.len() - 1]).unwrap_err();
    assert_eq!(error.to_string(), "New at byte 4: the input ends");
    // Behind an inner type it is the outer one again.
    let error = value::<(Range, u8)>(1, &bytes(1, &(2_u32, 3_u32))).unwrap_err();
    assert_eq!(error.to_string(), "value at byte 2: the input ends");
}

#[test]
fn a_format_is_described() {
    let mut format = Format::new();
    assert_eq!(NewMessage::describe(&mut format), Shape::Named("NewMessage"));
    Tree::describe(&mut format);
    assert_eq!(<Vec<u8>>::describe(&mut format).to_string(), "bytes");
    let all = <(BTreeMap<u8, bool>, BTreeSet<i64>, Result<f64, String>)>::describe(&mut format);
    let text = "(map(byte, truth), set(zigzag), result(eight, text))";
    assert_eq!(all.to_string(), text);
    let expected = "
New
  name: text
  owner: optional(varint16), since 2
  count: varint32

NewMessage
  0 Ask
    0: varint16
  1 Forget, since 2
  7 Tell
    what: New
  8 Note, never sent

Tree
  0 Leaf
  1 Node
    0: list(Tree)
";
    assert_eq!(format.to_string(), expected);
}
