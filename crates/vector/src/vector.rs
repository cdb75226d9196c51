//! The values of a column.

use codec::{Codec, Decode, DecodeError, Describe, Encode, Format, Reader, Shape, Writer};
use model::{ColumnId, ColumnReader, ColumnType, RowLayout, Value, ValueRef};

/// How values lie in a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Codec)]
pub enum Kind {
    /// Signed integers. Truth values are 1 and 0.
    Int,
    /// Unsigned integers; dates as they are stored, which orders them.
    UInt,
    /// Floating-point numbers.
    Float,
    /// Whole numbers of 128 bits: decimals without their point, whose place is the program's.
    Decimal,
    /// Texts and bytes.
    Bytes,
}

impl Kind {
    /// How any stored column can lie in a vector.
    pub fn of_stored(column: ColumnType) -> Self {
        match column {
            ColumnType::Int(_) => Kind::Int,
            ColumnType::UInt(_) => Kind::UInt,
            ColumnType::Float => Kind::Float,
            ColumnType::Fixed(_) | ColumnType::Variable(_) | ColumnType::Text { .. } => Kind::Bytes,
        }
    }
}

/// The values of a column. A NULL has some value too, which means nothing.
#[derive(Clone, Debug, PartialEq, Codec)]
pub struct Vector {
    /// The values.
    pub values: Values,
    /// Which of them are NULL; empty if none is.
    pub nulls: Vec<bool>,
}

/// Values of one kind.
#[derive(Clone, Debug, PartialEq, Codec)]
pub enum Values {
    /// Signed integers.
    Int(Vec<i64>),
    /// Unsigned integers.
    UInt(Vec<u64>),
    /// Floating-point numbers.
    Float(Vec<f64>),
    /// Decimals without their point.
    Decimal(Decimals),
    /// Texts.
    Bytes(Texts),
}

/// Whole numbers of 128 bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decimals(pub Vec<i128>);

/// Texts, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Codec)]
#[codec(check = texts_fit)]
pub struct Texts {
    /// Where each ends in `bytes`; in ascending order.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

fn texts_fit(texts: &Texts) -> bool {
    texts.ends.is_sorted() && texts.ends.last().map_or(0, |end| *end as usize) == texts.bytes.len()
}

/// One value.
#[derive(Clone, Debug, PartialEq, Codec)]
pub enum Scalar {
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// A decimal without its point.
    Decimal(Whole),
    /// A text.
    Bytes(Box<[u8]>),
}

/// A whole number of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole(pub i128);

/// One value of a vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarRef<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// A decimal without its point.
    Decimal(i128),
    /// A text.
    Bytes(&'a [u8]),
}

impl Scalar {
    /// How it would lie in a vector.
    pub fn kind(&self) -> Kind {
        match self {
            Scalar::Int(_) => Kind::Int,
            Scalar::UInt(_) => Kind::UInt,
            Scalar::Float(_) => Kind::Float,
            Scalar::Decimal(_) => Kind::Decimal,
            Scalar::Bytes(_) => Kind::Bytes,
        }
    }
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(u32::try_from(self.bytes.len()).expect("batches are small"));
    }

    /// Adds all texts of another list.
    fn append(&mut self, other: &Texts) {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        assert!(u32::try_from(self.bytes.len()).is_ok(), "batches are small");
        self.ends.extend(other.ends.iter().map(|end| before as u32 + end));
    }

    /// The text at a place.
    pub fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[from..self.ends[at] as usize]
    }

    /// Makes room for so many texts more, of so many bytes together.
    fn reserve(&mut self, texts: usize, bytes: usize) {
        self.ends.reserve_exact(texts);
        self.bytes.reserve_exact(bytes);
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of the text at a place.
    pub fn size_at(&self, at: usize) -> usize {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        (self.ends[at] - from) as usize
    }

    /// Bytes of all of them together.
    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }
}

/// Calls a macro-like body with the list inside, whatever its kind.
macro_rules! each {
    ($values:expr, $list:ident => $numbers:expr, $texts:ident => $bytes:expr) => {
        match $values {
            Values::Int($list) => $numbers,
            Values::UInt($list) => $numbers,
            Values::Float($list) => $numbers,
            Values::Decimal(Decimals($list)) => $numbers,
            Values::Bytes($texts) => $bytes,
        }
    };
}

impl Values {
    /// No values of a kind.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Int => Values::Int(Vec::new()),
            Kind::UInt => Values::UInt(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Decimal => Values::Decimal(Decimals::default()),
            Kind::Bytes => Values::Bytes(Texts::default()),
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        each!(self, list => list.len(), texts => texts.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push_default(&mut self) {
        each!(self, list => list.push(Default::default()), texts => texts.push(&[]))
    }

    /// The values at these places.
    fn gather(&self, places: &[u32]) -> Values {
        let at = |place: &u32| *place as usize;
        match self {
            Values::Int(list) => Values::Int(places.iter().map(|p| list[at(p)]).collect()),
            Values::UInt(list) => Values::UInt(places.iter().map(|p| list[at(p)]).collect()),
            Values::Float(list) => Values::Float(places.iter().map(|p| list[at(p)]).collect()),
            Values::Decimal(Decimals(list)) => {
                Values::Decimal(Decimals(places.iter().map(|p| list[at(p)]).collect()))
            }
            Values::Bytes(list) => {
                let mut texts = Texts::default();
                let bytes = places.iter().map(|place| list.size_at(at(place))).sum();
                texts.reserve(places.len(), bytes);
                places.iter().for_each(|place| texts.push(list.get(at(place))));
                Values::Bytes(texts)
            }
        }
    }
}

impl Vector {
    /// No values of a kind.
    pub fn new(kind: Kind) -> Self {
        Self { values: Values::new(kind), nulls: Vec::new() }
    }

    /// How its values lie.
    pub fn kind(&self) -> Kind {
        match self.values {
            Values::Int(_) => Kind::Int,
            Values::UInt(_) => Kind::UInt,
            Values::Float(_) => Kind::Float,
            Values::Decimal(_) => Kind::Decimal,
            Values::Bytes(_) => Kind::Bytes,
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the value at a place is NULL.
    #[inline]
    pub fn is_null(&self, at: usize) -> bool {
        self.nulls.get(at).copied().unwrap_or(false)
    }

    /// The value at a place.
    pub fn get(&self, at: usize) -> ScalarRef<'_> {
        if self.is_null(at) {
            return ScalarRef::Null;
        }
        match &self.values {
            Values::Int(list) => ScalarRef::Int(list[at]),
            Values::UInt(list) => ScalarRef::UInt(list[at]),
            Values::Float(list) => ScalarRef::Float(list[at]),
            Values::Decimal(list) => ScalarRef::Decimal(list.0[at]),
            Values::Bytes(list) => ScalarRef::Bytes(list.get(at)),
        }
    }

    /// Adds a NULL.
    pub fn push_null(&mut self) {
        self.nulls.resize(self.len(), false);
        self.nulls.push(true);
        self.values.push_default();
    }

    /// Adds a value; one of another kind counts as NULL.
    pub fn push(&mut self, value: ScalarRef<'_>) {
        match (&mut self.values, value) {
            (Values::Int(list), ScalarRef::Int(v)) => list.push(v),
            (Values::UInt(list), ScalarRef::UInt(v)) => list.push(v),
            (Values::Float(list), ScalarRef::Float(v)) => list.push(v),
            (Values::Decimal(list), ScalarRef::Decimal(v)) => list.0.push(v),
            (Values::Bytes(list), ScalarRef::Bytes(v)) => list.push(v),
            _ => return self.push_null(),
        }
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Adds a stored value. Decimals are stored as bytes.
    #[inline]
    pub fn push_stored(&mut self, value: ValueRef<'_>) {
        match (&mut self.values, value) {
            (Values::Int(list), ValueRef::Int(v)) => list.push(v),
            (Values::UInt(list), ValueRef::UInt(v)) => list.push(v),
            (Values::Float(list), ValueRef::Float(v)) => list.push(v),
            (Values::Decimal(list), ValueRef::Bytes(v)) => list.0.push(decimal_of(v)),
            (Values::Bytes(list), ValueRef::Bytes(v)) => list.push(v),
            _ => return self.push_null(),
        }
        if !self.nulls.is_empty() {
            self.nulls.push(false);
        }
    }

    /// Adds the values of a column of these rows, which all have that layout; those of a column
    /// that came later are its default.
    pub fn read(&mut self, layout: &RowLayout, column: ColumnId, rows: &[&[u8]], default: &Value) {
        let before = self.len();
        let Some(reader) = layout.reader(column) else {
            return rows.iter().for_each(|_| self.push_stored(default.as_ref()));
        };
        match &mut self.values {
            Values::Int(list) => reader.ints(rows, list),
            Values::UInt(list) => reader.uints(rows, list),
            Values::Float(list) => reader.floats(rows, list),
            Values::Decimal(list) => read_decimals(&reader, rows, &mut list.0),
            Values::Bytes(list) => rows.iter().for_each(|row| list.push(reader.bytes(row))),
        }
        let is_null = |row: &&[u8]| reader.is_null(row);
        if !self.nulls.is_empty() || reader.may_be_null() && rows.iter().any(is_null) {
            self.nulls.resize(before, false);
            self.nulls.extend(rows.iter().map(is_null));
        }
    }

    /// The values at these places.
    pub fn gather(&self, places: &[u32]) -> Vector {
        let nulls = if self.nulls.is_empty() {
            Vec::new()
        } else {
            places.iter().map(|place| self.nulls[*place as usize]).collect()
        };
        Vector { values: self.values.gather(places), nulls }
    }

    /// Makes room for the values of other vectors of the same kind: to move what is there again and
    /// again takes long where it is much.
    pub fn reserve_for<'v>(&mut self, others: impl Iterator<Item = &'v Vector> + Clone) {
        let count = others.clone().map(Vector::len).sum();
        match &mut self.values {
            Values::Int(list) => list.reserve_exact(count),
            Values::UInt(list) => list.reserve_exact(count),
            Values::Float(list) => list.reserve_exact(count),
            Values::Decimal(list) => list.0.reserve_exact(count),
            Values::Bytes(list) => list.reserve(count, others.map(Vector::text_bytes).sum()),
        }
    }

    /// Adds all values of a vector of the same kind.
    pub fn append(&mut self, other: &Vector) {
        if !self.nulls.is_empty() || !other.nulls.is_empty() {
            self.nulls.resize(self.len(), false);
            if other.nulls.is_empty() {
                self.nulls.resize(self.len() + other.len(), false)
            } else {
                self.nulls.extend_from_slice(&other.nulls)
            }
        }
        match (&mut self.values, &other.values) {
            (Values::Int(to), Values::Int(from)) => to.extend_from_slice(from),
            (Values::UInt(to), Values::UInt(from)) => to.extend_from_slice(from),
            (Values::Float(to), Values::Float(from)) => to.extend_from_slice(from),
            (Values::Decimal(to), Values::Decimal(from)) => to.0.extend_from_slice(&from.0),
            (Values::Bytes(to), Values::Bytes(from)) => to.append(from),
            _ => panic!("vectors of {:?} and {:?}", self.kind(), other.kind()),
        }
    }

    /// Bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.values {
            Values::Bytes(texts) => texts.byte_count(),
            _ => 0,
        }
    }

    /// About how many bytes it takes.
    pub fn memory_bytes(&self) -> usize {
        let numbers = match &self.values {
            Values::Int(list) => 8 * list.len(),
            Values::UInt(list) => 8 * list.len(),
            Values::Float(list) => 8 * list.len(),
            Values::Decimal(list) => 16 * list.0.len(),
            Values::Bytes(list) => 4 * list.ends.len() + list.bytes.len(),
        };
        numbers + self.nulls.len()
    }
}

/// The number that the bytes of a stored decimal are: two's complement, highest byte first, with
/// the sign turned round so that bytes compare as numbers do. At most 16 bytes count.
#[inline]
pub(crate) fn decimal_of(stored: &[u8]) -> i128 {
    // Two overlapping parts of a fixed size are read, as they need no copy of the bytes.
    macro_rules! parts {
        ($part:ty, $whole:ty) => {{
            const SIZE: usize = size_of::<$part>();
            let part = |bytes: Option<&[u8; SIZE]>| <$part>::from_be_bytes(*bytes.expect("long"));
            let first = <$whole>::from(part(stored.first_chunk()));
            let last = <$whole>::from(part(stored.last_chunk()));
            first << (8 * (stored.len() - SIZE)) | last
        }};
    }
    let stored = &stored[..stored.len().min(16)];
    let short = match stored.len() {
        0 => return 0,
        1 => u64::from(stored[0]),
        2..=3 => parts!(u16, u64),
        4..=7 => parts!(u32, u64),
        8 => parts!(u64, u64),
        size => {
            let unused = 8 * (16 - size);
            return ((parts!(u64, u128) << unused) ^ 1 << 127) as i128 >> unused;
        }
    };
    let unused = 8 * (8 - stored.len());
    i128::from(((short << unused) ^ 1 << 63) as i64 >> unused)
}

/// [`decimal_of`] for a column of many rows.
fn read_decimals(reader: &ColumnReader<'_>, rows: &[&[u8]], out: &mut Vec<i128>) {
    macro_rules! of_size {
        ($size:expr, $($known:literal)*) => {
            match $size {
                $($known => reader.numbers(rows, |b: [u8; $known]| decimal_of(&b), out),)*
                other => panic!("a decimal of {other} bytes"),
            }
        };
    }
    let ColumnType::Fixed(size) = reader.column_type() else { panic!("decimals are fixed") };
    of_size!(size, 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16);
}

impl ScalarRef<'_> {
    /// The value as it is stored; decimals in so many bytes, 16 at most.
    pub fn stored(self, decimal_size: usize) -> Value {
        match self {
            ScalarRef::Null => Value::Null,
            ScalarRef::Int(number) => Value::Int(number),
            ScalarRef::UInt(number) => Value::UInt(number),
            ScalarRef::Float(number) => Value::Float(number),
            ScalarRef::Decimal(number) => {
                let (bytes, size) = stored_decimal(number, decimal_size);
                Value::Bytes(bytes[..size].into())
            }
            ScalarRef::Bytes(bytes) => Value::Bytes(bytes.into()),
        }
    }
}

/// The stored form of a decimal, in so many bytes.
fn stored_decimal(number: i128, size: usize) -> ([u8; 16], usize) {
    let size = size.min(16);
    let mut bytes = [0; 16];
    bytes[..size].copy_from_slice(&number.to_be_bytes()[16 - size..]);
    bytes[0] ^= 0x80;
    (bytes, size)
}

impl Encode for Whole {
    fn encode(&self, out: &mut Writer) {
        ((self.0 >> 64) as i64).encode(out);
        out.put_u64(self.0 as u64);
    }
}

impl Decode for Whole {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let high = i64::decode(input)?;
        Ok(Self(i128::from(high) << 64 | i128::from(input.u64()?)))
    }
}

impl Describe for Whole {
    fn describe(_: &mut Format) -> Shape {
        Shape::Tuple(vec![Shape::Zigzag, Shape::Eight])
    }
}

// Most decimals are small: what fits 64 bits is written as such.
impl Encode for Decimals {
    fn encode(&self, out: &mut Writer) {
        let small: Option<Vec<i64>> =
            self.0.iter().map(|number| i64::try_from(*number).ok()).collect();
        let large = match small {
            Some(_) => Vec::new(),
            None => self.0.iter().map(|number| Whole(*number)).collect(),
        };
        (small.unwrap_or_default(), large).encode(out);
    }
}

impl Decode for Decimals {
    fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (small, large) = <(Vec<i64>, Vec<Whole>)>::decode(input)?;
        let large = large.into_iter().map(|Whole(number)| number);
        Ok(Self(small.into_iter().map(i128::from).chain(large).collect()))
    }
}

impl Describe for Decimals {
    fn describe(format: &mut Format) -> Shape {
        <(Vec<i64>, Vec<Whole>)>::describe(format)
    }
}
