//! Makes lies of true messages: each keeps the form of a message, and something in it is not what
//! it was.
//!
//! # Owns
//! The walk over a message's bytes by the description of the format, so that no field of no message
//! is left out.

use std::collections::BTreeMap;

use codec::{Definition, Describe, Encode, Format, Reader, Shape, Variant, Writer};
use model::{ActorKind, Address, NodeId, WorkerId};
use stdx::Prng;
use wire::{Envelope, Link, PROTOCOL_VERSION};

/// Nesting after which what is made up ends.
const DEPTH: u32 = 10;

/// Makes lies.
pub(crate) struct Liar {
    format: Format,
    pub(crate) prng: Prng,
    /// Numbers that were met in messages, and texts in JSON.
    numbers: Vec<u64>,
    texts: BTreeMap<&'static str, Vec<u8>>,
    /// Places in the message that were passed, and those that are to be changed.
    passed: usize,
    changes: Vec<usize>,
    depth: u32,
    /// Node and life of who has said it, and of who says it now.
    names: [(u64, u64); 2],
}

impl Liar {
    pub(crate) fn new(seed: u64) -> Self {
        let mut format = Format::new();
        Envelope::describe(&mut format);
        Self {
            format,
            prng: Prng::new(seed),
            numbers: vec![0, 1, 2],
            texts: BTreeMap::new(),
            passed: 0,
            changes: Vec::new(),
            depth: 0,
            names: [(0, 0); 2],
        }
    }

    /// A lie of `node` to `to`, made of a true message; none when nothing that can be read came of
    /// it, which a host refuses before anybody sees it.
    pub(crate) fn lie(
        &mut self,
        truth: &Envelope,
        node: NodeId,
        life: u64,
        to: Address,
    ) -> Option<Envelope> {
        let link = Link { from: node, incarnation: truth.incarnation, to: to.node, workers: 255 };
        self.names = [(truth.from.node.0.into(), truth.incarnation.0), (node.0.into(), life)];
        let mut out = Writer::new(PROTOCOL_VERSION);
        let from = Address { node, ..truth.from };
        let told = Envelope { from, to, ..truth.clone() };
        told.encode(&mut out).ok()?;
        let bytes = out.bytes().to_vec();
        let shape = Shape::Named("Envelope");
        // First only to learn how many places there are.
        (self.passed, self.changes) = (0, Vec::new());
        self.copy(
            &shape,
            &mut Reader::new(PROTOCOL_VERSION, &bytes),
            &mut Writer::new(PROTOCOL_VERSION),
        );
        let places = self.passed;
        let count = *self.prng.pick(&[0, 1, 1, 1, 2, 2, 3, 8]);
        // The first places are the address of the sender and of the receiver.
        let changes = (0..count).map(|_| self.prng.index(places)).collect();
        (self.passed, self.changes) = (0, changes);
        let mut out = Writer::new(PROTOCOL_VERSION);
        if self.prng.percent(8) {
            // Nothing of it is true but the addresses.
            let head = Shape::Named("Head");
            let mut input = Reader::new(PROTOCOL_VERSION, &bytes);
            self.copy(&head, &mut input, &mut out)?;
            self.make(&Shape::Named("Message"), &mut out);
        } else {
            self.copy(&shape, &mut Reader::new(PROTOCOL_VERSION, &bytes), &mut out)?;
        }
        let mut input = Reader::new(PROTOCOL_VERSION, out.bytes());
        Envelope::decode(&mut input, &link).ok()
    }

    /// Some actor of a node.
    pub(crate) fn actor(&mut self, node: NodeId, workers: u8) -> Address {
        let kinds = [
            ActorKind::Control,
            ActorKind::Epochs,
            ActorKind::Coordinator,
            ActorKind::Participant,
            ActorKind::IndexBuilder,
            ActorKind::Joiner,
            ActorKind::Client,
        ];
        let worker = WorkerId(self.prng.below(workers.into()) as u8);
        Address { node, worker, actor: *self.prng.pick(&kinds) }
    }

    /// Whether this place is to be changed.
    fn changes_here(&mut self) -> bool {
        self.passed += 1;
        self.changes.contains(&(self.passed - 1))
    }

    /// Copies a value, with changes.
    #[expect(clippy::too_many_lines, reason = "an arm for each shape")]
    fn copy(&mut self, shape: &Shape, input: &mut Reader<'_>, out: &mut Writer) -> Option<()> {
        match shape {
            Shape::Byte => {
                let byte = input.u8().ok()?;
                let change = self.changes_here();
                out.put_u8(if change { self.number(8, byte.into()) as u8 } else { byte });
            }
            Shape::Truth => {
                let truth = input.u8().ok()?;
                out.put_u8(truth ^ u8::from(self.changes_here()));
            }
            Shape::Varint(bits) => {
                let number = input.varint().ok()?;
                self.note(number);
                let change = self.changes_here();
                out.put_varint(if change { self.number(*bits, number) } else { number });
            }
            Shape::Zigzag => {
                let number = input.varint().ok()?;
                let change = self.changes_here();
                out.put_varint(if change { self.number(64, number) } else { number });
            }
            Shape::Eight => {
                let number = input.u64().ok()?;
                let change = self.changes_here();
                out.put_u64(if change { self.number(64, number) } else { number });
            }
            Shape::Bytes | Shape::Text | Shape::Json(_) => {
                let len = input.length().ok()?;
                let mut bytes = input.bytes(len).ok()?.to_vec();
                if let Shape::Json(what) = shape {
                    self.texts.insert(what, bytes.clone());
                }
                if self.changes_here() {
                    self.change_bytes(&mut bytes, matches!(shape, Shape::Json(_)));
                }
                bytes.encode(out);
            }
            Shape::List(element) | Shape::Set(element) => {
                let count = input.length().ok()?;
                let mut all = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut one = Writer::new(out.version());
                    self.copy(element, input, &mut one)?;
                    all.push(one.bytes().to_vec());
                }
                if self.changes_here() {
                    self.change_list(&mut all, element);
                }
                out.put_length(all.len());
                all.iter().flatten().for_each(|byte| out.put_u8(*byte));
            }
            Shape::Map(..) => panic!("no message holds a map"),
            Shape::Optional(value) => {
                let there = input.u8().ok()? == 1;
                let mut copied = Writer::new(out.version());
                if there {
                    self.copy(value, input, &mut copied)?;
                }
                let change = self.changes_here();
                out.put_u8(u8::from(there != change));
                match (there, change) {
                    (true, false) => copied.bytes().iter().for_each(|byte| out.put_u8(*byte)),
                    (false, true) => self.make(value, out),
                    _ => {}
                }
            }
            Shape::Result(value, error) => {
                let failed = input.u8().ok()? == 1;
                let mut copied = Writer::new(out.version());
                self.copy(if failed { error } else { value }, input, &mut copied)?;
                if self.changes_here() {
                    out.put_u8(u8::from(!failed));
                    self.make(if failed { value } else { error }, out);
                } else {
                    out.put_u8(u8::from(failed));
                    copied.bytes().iter().for_each(|byte| out.put_u8(*byte));
                }
            }
            Shape::Tuple(parts) => {
                for part in parts {
                    self.copy(part, input, out)?;
                }
            }
            Shape::Named(name) => return self.copy_named(name, input, out),
        }
        Some(())
    }

    fn copy_named(&mut self, name: &str, input: &mut Reader<'_>, out: &mut Writer) -> Option<()> {
        let [was, is] = self.names;
        if name == "NodeId" {
            let number = input.varint().ok()?;
            let number = if number == was.0 { is.0 } else { number };
            let change = self.changes_here();
            out.put_varint(if change { self.prng.between(0, 5) } else { number });
            return Some(());
        }
        if name == "Incarnation" {
            let number = input.u64().ok()?;
            let number = if number == was.1 { is.1 } else { number };
            let change = self.changes_here();
            out.put_u64(if change { self.number(64, number) } else { number });
            return Some(());
        }
        match self.format.definition(name)?.clone() {
            Definition::Struct(fields) => {
                for field in &fields {
                    self.copy(&field.shape, input, out)?;
                }
            }
            Definition::Numbers(numbers) => {
                let number = input.varint().ok()?;
                let change = self.changes_here();
                out.put_varint(if change { self.prng.pick(&numbers).0 } else { number });
            }
            Definition::Enum(variants) => {
                let tag = input.u8().ok()?;
                let fields = variants.iter().find(|v| v.tag == tag)?.fields.clone()?;
                let mut copied = Writer::new(out.version());
                copied.put_u8(tag);
                for field in &fields {
                    self.copy(&field.shape, input, &mut copied)?;
                }
                // What is wholly made up stands at few places only, or hardly anything would last.
                if self.changes_here() && self.prng.percent(50) {
                    self.make_variant(&variants, out);
                } else {
                    copied.bytes().iter().for_each(|byte| out.put_u8(*byte));
                }
            }
        }
        Some(())
    }

    /// Makes a value up.
    fn make(&mut self, shape: &Shape, out: &mut Writer) {
        match shape {
            Shape::Byte => out.put_u8(self.number(8, 3) as u8),
            Shape::Truth => out.put_u8(self.prng.below(2) as u8),
            Shape::Varint(bits) => out.put_varint(self.number(*bits, 1)),
            Shape::Zigzag => out.put_varint(self.number(64, 1)),
            Shape::Eight => out.put_u64(self.number(64, 1)),
            Shape::Bytes | Shape::Text => {
                let bytes = vec![b'a'; self.prng.index(9)];
                bytes.encode(out);
            }
            Shape::Json(what) => self.texts.get(what).cloned().unwrap_or_default().encode(out),
            Shape::List(element) => {
                let count = if self.depth > DEPTH { 0 } else { self.prng.index(4) };
                out.put_length(count);
                (0..count).for_each(|_| self.make(element, out));
            }
            Shape::Set(_) | Shape::Map(..) => out.put_length(0),
            Shape::Optional(value) => {
                let there = self.depth < DEPTH && self.prng.percent(50);
                out.put_u8(u8::from(there));
                if there {
                    self.make(value, out);
                }
            }
            Shape::Result(value, error) => {
                let failed = self.prng.percent(40);
                out.put_u8(u8::from(failed));
                self.make(if failed { error } else { value }, out);
            }
            Shape::Tuple(parts) => parts.iter().for_each(|part| self.make(part, out)),
            Shape::Named("NodeId") => out.put_varint(self.prng.between(0, 5)),
            Shape::Named(name) => self.make_named(name, out),
        }
    }

    fn make_named(&mut self, name: &str, out: &mut Writer) {
        self.depth += 1;
        match self.format.definition(name).expect("types are defined").clone() {
            Definition::Struct(fields) => {
                fields.iter().for_each(|field| self.make(&field.shape, out));
            }
            Definition::Numbers(numbers) => out.put_varint(self.prng.pick(&numbers).0),
            Definition::Enum(variants) => self.make_variant(&variants, out),
        }
        self.depth -= 1;
    }

    fn make_variant(&mut self, variants: &[Variant], out: &mut Writer) {
        let sent: Vec<&Variant> = variants.iter().filter(|v| v.fields.is_some()).collect();
        let variant = if self.depth > DEPTH { sent[0] } else { *self.prng.pick(&sent) };
        out.put_u8(variant.tag);
        let fields: Vec<Shape> =
            variant.fields.iter().flatten().map(|field| field.shape.clone()).collect();
        fields.iter().for_each(|shape| self.make(shape, out));
    }

    fn note(&mut self, number: u64) {
        if self.numbers.len() < 256 {
            self.numbers.push(number);
        } else if self.prng.percent(10) {
            let at = self.prng.index(self.numbers.len());
            self.numbers[at] = number;
        }
    }

    /// A number in place of another one.
    fn number(&mut self, bits: u32, was: u64) -> u64 {
        let most = u64::MAX >> (64 - bits);
        let number = match self.prng.below(10) {
            0 => 0,
            1 => most,
            2 | 3 => was.wrapping_add(1),
            4 | 5 => was.wrapping_sub(1),
            6 => self.prng.next_u64() >> self.prng.below(64),
            7 => was ^ 1 << self.prng.below(bits.into()),
            _ => *self.prng.pick(&self.numbers),
        };
        number & most
    }

    fn change_bytes(&mut self, bytes: &mut Vec<u8>, json: bool) {
        if json {
            // A number is another one.
            let digits = bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit());
            let digits: Vec<usize> = digits.map(|(at, _)| at).collect();
            if !digits.is_empty() {
                let at = *self.prng.pick(&digits);
                let number = self.number(34, 7).to_string();
                bytes.splice(at..=at, number.into_bytes());
            }
            return;
        }
        match self.prng.below(5) {
            0 => bytes.clear(),
            1 => bytes.truncate(self.prng.index(bytes.len() + 1)),
            2 => bytes.extend(vec![self.prng.next_u64() as u8; self.prng.index(5_000)]),
            3 => bytes.push(self.prng.next_u64() as u8),
            _ => {
                if !bytes.is_empty() {
                    let at = self.prng.index(bytes.len());
                    bytes[at] ^= 1 << self.prng.below(8);
                }
            }
        }
    }

    fn change_list(&mut self, all: &mut Vec<Vec<u8>>, element: &Shape) {
        match self.prng.below(6) {
            0 => all.clear(),
            1 => all.truncate(self.prng.index(all.len() + 1)),
            2 => all.extend(all.first().cloned()),
            3 if !all.is_empty() => {
                let last = all.len() - 1;
                all.swap(0, last);
            }
            4 => {
                let one = all.last().cloned();
                all.extend(std::iter::repeat_n(one, self.prng.index(600)).flatten());
            }
            _ => {
                let mut one = Writer::new(PROTOCOL_VERSION);
                self.make(element, &mut one);
                all.push(one.bytes().to_vec());
            }
        }
    }
}
