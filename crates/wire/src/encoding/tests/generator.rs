//! Bytes of random values, made from the description of the format: so that no variant is
//! forgotten, and none has to be written down.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::{Definition, Encode, Format, Shape, Variant, Writer};
use model::{
    ClusterId, ClusterState, Column, ColumnType, Command, SchemaChange, SessionId, StateChange,
    TableId, Value,
};
use stdx::Prng;

use super::super::PROTOCOL_VERSION;

/// Nesting after which lists are empty and enums have their first variant.
const DEPTH: u32 = 12;

pub(super) struct Generator<'a> {
    format: &'a Format,
    prng: Prng,
    depth: u32,
    /// Types and variants of which a value was made.
    pub(super) made: BTreeSet<(&'static str, &'static str)>,
}

impl<'a> Generator<'a> {
    pub(super) fn new(format: &'a Format, seed: u64) -> Self {
        Self { format, prng: Prng::new(seed), depth: 0, made: BTreeSet::new() }
    }

    /// The bytes of a value of a type with a definition.
    pub(super) fn value(&mut self, name: &'static str) -> Vec<u8> {
        let mut out = Writer::new(PROTOCOL_VERSION);
        self.named(name, &mut out);
        std::mem::take(out.bytes_mut())
    }

    fn named(&mut self, name: &'static str, out: &mut Writer) {
        self.depth += 1;
        match self.format.definition(name).expect("types are defined") {
            Definition::Struct(fields) => {
                fields.iter().for_each(|field| self.shape(&field.shape, out));
            }
            Definition::Numbers(numbers) => out.put_varint(self.prng.pick(numbers).0),
            Definition::Enum(variants) => {
                let sent = variants.iter().filter(|variant| variant.fields.is_some());
                let sent: Vec<&Variant> = sent.collect();
                let variant = if self.depth > DEPTH { sent[0] } else { self.prng.pick(&sent) };
                self.made.insert((name, variant.name));
                out.put_u8(variant.tag);
                let fields = variant.fields.iter().flatten();
                fields.for_each(|field| self.shape(&field.shape, out));
            }
        }
        self.depth -= 1;
    }

    fn shape(&mut self, shape: &Shape, out: &mut Writer) {
        match shape {
            Shape::Byte => out.put_u8(self.prng.next_u64() as u8),
            Shape::Truth => out.put_u8(self.prng.below(2) as u8),
            Shape::Varint(bits) => out.put_varint(self.number(*bits)),
            Shape::Zigzag => (self.number(64) as i64).encode(out),
            Shape::Eight => out.put_u64(self.number(64)),
            Shape::Bytes => {
                let bytes: Vec<u8> = (0..self.length()).map(|_| self.number(8) as u8).collect();
                bytes.encode(out);
            }
            Shape::Text => {
                "Straße, 通り".chars().take(self.length()).collect::<String>().encode(out)
            }
            Shape::Json(what) => self.json(what).encode(out),
            Shape::List(element) => {
                let count = self.length();
                out.put_length(count);
                (0..count).for_each(|_| self.shape(element, out));
            }
            Shape::Set(element) => {
                let (mut set, count) = (BTreeSet::new(), self.length());
                for _ in 0..count {
                    let mut one = Writer::new(out.version());
                    self.shape(element, &mut one);
                    // The members of sets are of eight bytes, little-endian.
                    set.insert(one.bytes().iter().rev().copied().collect::<Vec<u8>>());
                }
                out.put_length(set.len());
                set.iter().flat_map(|one| one.iter().rev()).for_each(|byte| out.put_u8(*byte));
            }
            Shape::Map(..) => unreachable!("no message holds a map"),
            Shape::Optional(value) => {
                let there = self.prng.percent(60);
                there.encode(out);
                if there {
                    self.shape(value, out);
                }
            }
            Shape::Result(value, error) => {
                let failed = self.prng.percent(40);
                failed.encode(out);
                self.shape(if failed { error } else { value }, out);
            }
            Shape::Tuple(parts) => parts.iter().for_each(|part| self.shape(part, out)),
            Shape::Named(name) => self.named(name, out),
        }
    }

    /// Of any size, mostly small.
    fn number(&mut self, bits: u32) -> u64 {
        let bits = self.prng.between(1, u64::from(bits));
        self.prng.next_u64() >> (64 - bits)
    }

    fn length(&mut self) -> usize {
        let most = if self.depth > DEPTH { 1 } else { *self.prng.pick(&[2, 2, 2, 3, 5, 20]) };
        self.prng.index(most)
    }

    fn json(&mut self, what: &str) -> Vec<u8> {
        let number = self.number(64);
        let command = |number| {
            let (session, change) = (SessionId::default(), change(number));
            Arc::new(match number % 3 {
                0 => Command::Found { cluster: ClusterId(number), protocol: 0 },
                _ => Command::Schema { session, number, change },
            })
        };
        let json = match what {
            "ClusterState" => serde_json::to_vec(&ClusterState {
                id: ClusterId(number),
                databases: [("d".into(), vec![1, 2, 255].into())].into_iter().collect(),
                accounts: [("a".into(), vec![1, 2, 255].into())].into_iter().collect(),
                ..ClusterState::default()
            }),
            "StateChange" => {
                let before = ClusterState { id: ClusterId(number), ..ClusterState::default() };
                let databases = [("d".into(), vec![1, 2, 255].into())].into_iter().collect();
                let after = ClusterState { databases, ..before.clone() };
                serde_json::to_vec(&StateChange::between(&before, &after))
            }
            "StatePiece" => {
                let databases = [("d".into(), vec![1, 2, 255].into())].into_iter().collect();
                let state = ClusterState { id: ClusterId(number), databases, ..Default::default() };
                serde_json::to_vec(&model::cluster::StatePieces::of(state.into()).take())
            }
            "Command" => serde_json::to_vec(&command(number)),
            "SchemaChange" => serde_json::to_vec(&change(number)),
            "list of Command" => {
                let commands: Vec<_> = (0..self.length() as u64).map(command).collect();
                serde_json::to_vec(&commands)
            }
            _ => panic!("how does {what} look in JSON?"),
        };
        json.unwrap()
    }
}

fn change(number: u64) -> SchemaChange {
    let column = Column {
        name: format!("c{number}"),
        column_type: ColumnType::Float,
        nullable: number.is_multiple_of(2),
        default: Value::Float(number as f64 / 3.0),
    };
    let table = TableId(number as u32);
    match number % 3 {
        0 => SchemaChange::DropTable { table },
        1 => SchemaChange::ModifyColumns {
            table,
            version: 7,
            columns: vec![(model::ColumnId(1), column)],
            renamed: Vec::new(),
            description: b"text".as_slice().into(),
        },
        _ => SchemaChange::AddColumns {
            table,
            columns: vec![column],
            large: None,
            description: None,
        },
    }
}
