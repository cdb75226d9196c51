//! Table definitions: columns, row layouts, indexes, and how keys spread over partitions.
//!
//! A definition is immutable once published in the cluster's catalog; an alteration publishes a
//! new one with a higher `version`. Rows written under an older layout stay as they are: each
//! row names its layout, and columns it lacks read as their default.

use std::sync::Arc;

use collation::CollationId;
use serde::{Deserialize, Serialize};

use crate::ids::{ColumnId, Epoch, IndexId, PartitionIndex, TableId};
use crate::key::{Key, KeyEncoder, strip_value};
use crate::row::RowLayout;
use crate::value::{Value, ValueRef};

/// Number of hash buckets a table's keys fall into; divides evenly by many partition counts.
pub const BUCKET_COUNT: u16 = 3840;
/// Most columns a table may have: 4,096 of a user, a hidden key, references to large values.
pub const COLUMNS_MAX: usize = 4098;
/// Longest encoded key of a primary key or an index, in bytes. What MySQL counts as 3,072 bytes is
/// longer here: text of one byte for a character is stored in up to three bytes, zero bytes are
/// escaped, and each column has an end.
pub const KEY_SIZE_MAX: usize = 10_000;
/// Longest encoded row, in bytes: 65,535 bytes of values that differ in length, and what a row of
/// many columns has beside them.
pub const ROW_SIZE_MAX: usize = 76_000;
/// Most indexes a table may have, of both kinds together.
pub const INDEXES_MAX: usize = 64;

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ColumnType {
    /// A signed integer of 1, 2, 4 or 8 bytes.
    Int(u8),
    /// An unsigned integer of 1, 2, 4 or 8 bytes.
    UInt(u8),
    /// A 64-bit float.
    Float,
    /// Exactly this many bytes.
    Fixed(u16),
    /// At most this many bytes.
    Variable(u16),
    /// Text of at most this many bytes of UTF-8; its keys compare by the collation. The weights of
    /// a value take at most twice `max_bytes` of a key: what would come after does not count.
    Text {
        /// Longest value in bytes.
        max_bytes: u16,
        /// How keys compare.
        #[serde(with = "collation_number")]
        collation: CollationId,
    },
}

/// Collations by their numbers: `collation` is data without a format.
mod collation_number {
    use collation::CollationId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &CollationId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u16(id.0)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<CollationId, D::Error> {
        u16::deserialize(from).map(CollationId)
    }
}

impl ColumnType {
    /// The longest value, if values differ in length: they are stored behind the fixed columns.
    pub fn variable_max(self) -> Option<u16> {
        match self {
            ColumnType::Variable(max) | ColumnType::Text { max_bytes: max, .. } => Some(max),
            _ => None,
        }
    }

    /// Bytes of every value, if values do not differ in length.
    #[inline]
    pub fn fixed_size(self) -> Option<usize> {
        match self {
            ColumnType::Int(width) | ColumnType::UInt(width) => Some(usize::from(width)),
            ColumnType::Float => Some(8),
            ColumnType::Fixed(size) => Some(usize::from(size)),
            ColumnType::Variable(_) | ColumnType::Text { .. } => None,
        }
    }

    /// Bytes of a value in the fixed part of a row: the value, or the offset of its end.
    pub fn size_in_fixed_part(self) -> usize {
        self.fixed_size().unwrap_or(2)
    }

    /// Bytes of a value in an encoded key, at most; see [`key`](crate::key).
    pub fn key_size_max(self) -> usize {
        match self {
            ColumnType::Int(_) | ColumnType::UInt(_) | ColumnType::Float | ColumnType::Fixed(_) => {
                self.size_in_fixed_part()
            }
            // Each zero byte is escaped to two, and two end the value.
            ColumnType::Variable(max) => 2 * usize::from(max) + 2,
            ColumnType::Text { max_bytes, .. } => usize::from(max_bytes) + 2,
        }
    }

    /// Whether each value of this type is the same value of the other: a column may become it
    /// while rows of older layouts stay as they are.
    pub fn widens_to(self, to: ColumnType) -> bool {
        match (self, to) {
            (ColumnType::Int(before), ColumnType::Int(after))
            | (ColumnType::UInt(before), ColumnType::UInt(after)) => before <= after,
            (ColumnType::Variable(before), ColumnType::Variable(after)) => before <= after,
            (
                ColumnType::Text { max_bytes: before, collation: of_before },
                ColumnType::Text { max_bytes: after, collation: of_after },
            ) => before <= after && of_before == of_after,
            _ => self == to,
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name, unique in the table.
    pub name: String,
    /// Storage kind.
    pub column_type: ColumnType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// What rows older than the column read as; also what an insert without a value stores.
    pub default: Value,
}

impl Column {
    /// What a column becomes that is dropped while rows of older layouts still hold its values:
    /// nothing but NULL is stored there any more, in two bytes and a bit.
    pub fn hole(id: ColumnId) -> Self {
        Self {
            // With a space at its end, which no name of a user's column has.
            name: format!("#dropped {} ", id.0),
            column_type: ColumnType::Variable(0),
            nullable: true,
            default: Value::Null,
        }
    }

    /// Whether it is as [`Column::hole`] makes it, whatever its name.
    pub fn is_hole(&self) -> bool {
        self.column_type == ColumnType::Variable(0) && self.nullable && self.default == Value::Null
    }
}

/// Life of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// Writers maintain it, readers do not use it; existing rows are being added.
    Building,
    /// Complete.
    Online,
}

/// An ordered index: a tree in each partition replica, kept by the replica itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderedIndexDef {
    /// Identity.
    pub id: IndexId,
    /// Name, unique in the table.
    pub name: String,
    /// Key columns, most significant first.
    pub columns: Vec<ColumnId>,
    /// Building, until the trees of all replicas have the rows that were there before; or online.
    #[serde(default = "online")]
    pub state: IndexState,
}

/// The state of an index whose definition does not say.
fn online() -> IndexState {
    IndexState::Online
}

/// A unique index: a hidden table from the indexed columns to the primary key, kept consistent by
/// the transaction coordinator. Rows with a NULL in the indexed columns have no entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UniqueIndexDef {
    /// Identity.
    pub id: IndexId,
    /// Name, unique in the table.
    pub name: String,
    /// Indexed columns.
    pub columns: Vec<ColumnId>,
    /// The hidden table: the indexed columns (its key) followed by the base table's primary key.
    pub table: TableId,
    /// Building or online.
    pub state: IndexState,
    /// From this epoch on every row has its entry; 0 if that is so since the table was made. A
    /// restart that goes back further builds the index anew.
    #[serde(default)]
    pub complete: Epoch,
}

/// Which values of a table's rows may lie outside of them, and where.
///
/// The kernel keeps the parts' table together with its base table, and knows no more: who writes a
/// row writes the parts of its values, in the same transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LargeColumns {
    /// The columns whose values may lie outside.
    pub columns: Vec<ColumnId>,
    /// The column that says of each row which of its values do; NULL if none does.
    pub references: ColumnId,
    /// The hidden table of their parts: the base table's distribution key, the value's number, the
    /// part's number, its bytes. All but the bytes are its primary key; parts lie in the partition
    /// of their row, and with its workers if the two tables are colocated ([`TableId::colocated`]).
    pub parts: TableId,
}

/// The same in a change of the schema, by positions of columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeForm {
    /// The columns whose values may lie outside: of added columns the new ones.
    pub columns: Vec<u16>,
    /// The column of the references.
    pub references: u16,
}

/// Most bytes of a part of a value: with its key, a row that fills an allocation well.
pub const PART_SIZE_MAX: u16 = 57_000;

/// What the SQL layer keeps in the catalog about a table or a database; opaque bytes to the kernel.
pub type Description = Arc<[u8]>;

/// One version of a table's definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Identity; never reused.
    pub id: TableId,
    /// Full name, `database.table`.
    pub name: String,
    /// Counts the definition's alterations from 1.
    pub version: u32,
    /// The table this one belongs to, if it is a hidden one: a unique index of it, the parts of its
    /// large values, or its journal.
    #[serde(alias = "unique_index_of")]
    pub hidden_behind: Option<TableId>,
    /// All columns, in order.
    pub columns: Vec<Column>,
    /// Columns of the primary key; none is nullable; their order is the key's.
    pub primary_key: Vec<ColumnId>,
    /// Columns whose hash places the row: a subset of the primary key.
    pub distribution_key: Vec<ColumnId>,
    /// Number of partitions.
    pub partition_count: u16,
    /// Row layouts, oldest first; rows are written in the last one.
    pub layouts: Vec<Arc<RowLayout>>,
    /// Ordered indexes.
    pub ordered_indexes: Vec<OrderedIndexDef>,
    /// Unique indexes.
    pub unique_indexes: Vec<UniqueIndexDef>,
    /// Values that may lie outside of rows, if any may.
    pub large: Option<LargeColumns>,
    /// Writes are refused: the rows are being copied into the table that will replace this one.
    pub writes_blocked: bool,
    /// The hidden table in which each change of a row leaves the row's primary key, as long as
    /// somebody needs to know: its columns are those of the key. Whoever changes a row writes the
    /// entry in the same transaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<TableId>,
    /// Versions of the definition, first and last, between which nothing but indexes differs. They
    /// say something about the present version if that is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alike: Option<(u32, u32)>,
    /// What the SQL layer keeps about the table.
    pub description: Description,
}

impl Table {
    /// Whether a request may be served that was made by this version of the definition: by the
    /// present one, or by one from which only indexes differ.
    pub fn serves_version(&self, version: u32) -> bool {
        version == self.version
            || self.alike.is_some_and(|(first, last)| {
                last == self.version && (first..last).contains(&version)
            })
    }

    /// Counts a change of the definition that concerns nothing but an index.
    pub fn next_version_alike(&mut self) {
        let first = self.alike.filter(|(_, last)| *last == self.version);
        let first = first.map_or(self.version, |(first, _)| first);
        self.version += 1;
        self.alike = Some((first, self.version));
    }

    /// The layout new rows are written in.
    pub fn layout(&self) -> &Arc<RowLayout> {
        self.layouts.last().expect("a table has at least one layout")
    }

    /// The partition that holds rows whose distribution key hashes to `hash`.
    pub fn partition_of_hash(&self, hash: u64) -> PartitionIndex {
        let bucket = (hash % u64::from(BUCKET_COUNT)) as u16;
        PartitionIndex(bucket % self.partition_count)
    }

    /// The partition of the row with the primary key `values` (in key order).
    ///
    /// Returns `None` when the number or kinds of the values do not fit the key.
    pub fn partition_of_key(&self, values: &[Value]) -> Option<PartitionIndex> {
        if values.len() != self.primary_key.len() {
            return None;
        }
        let mut encoder = KeyEncoder::new();
        for column in &self.distribution_key {
            let at = self.primary_key.iter().position(|c| c == column)?;
            self.encode_column(&mut encoder, *column, values[at].as_ref())?;
        }
        Some(self.partition_of_hash(encoder.finish().distribution_hash()))
    }

    /// The partition of the rows with these values of the distribution key, in its order; `None`
    /// when they do not fit it.
    pub fn partition_of_distribution(&self, values: &[Value]) -> Option<PartitionIndex> {
        let complete = values.len() == self.distribution_key.len();
        let key = complete.then(|| self.key_of_values(&self.distribution_key, values))??;
        Some(self.partition_of_hash(key.distribution_hash()))
    }

    /// The partition of an encoded row.
    pub fn partition_of_row(&self, row: &[u8]) -> PartitionIndex {
        let key = self.key_of_row(&self.distribution_key, row);
        self.partition_of_hash(key.distribution_hash())
    }

    /// Encodes primary key `values` (in key order); `None` when they do not fit the key.
    pub fn primary_key_of(&self, values: &[Value]) -> Option<Key> {
        self.key_of_values(&self.primary_key, values)
    }

    /// Encodes `values` for the leading `columns` of a key; fewer values than columns make a
    /// prefix. `None` when a value does not fit its column.
    pub fn key_of_values(&self, columns: &[ColumnId], values: &[Value]) -> Option<Key> {
        if values.len() > columns.len() {
            return None;
        }
        let mut encoder = self.encoder_of(&columns[..values.len()]);
        for (column, value) in columns.iter().zip(values) {
            self.encode_column(&mut encoder, *column, value.as_ref())?;
        }
        Some(encoder.finish())
    }

    /// What the keys over `columns` begin with of the rows that have `values` in the leading ones
    /// and a text in the next that begins with `prefix`. `None` when a value does not fit its
    /// column, or that column is no text.
    pub fn key_of_prefix(
        &self,
        columns: &[ColumnId],
        values: &[Value],
        prefix: &[u8],
    ) -> Option<Key> {
        let next = columns.get(values.len())?;
        let mut encoder = KeyEncoder::new();
        for (column, value) in columns.iter().zip(values) {
            self.encode_column(&mut encoder, *column, value.as_ref())?;
        }
        let definition = &self.columns[usize::from(next.0)];
        encoder.push_prefix(definition.column_type, definition.nullable, prefix)?;
        Some(encoder.finish())
    }

    /// The key of an encoded row over `columns`.
    pub fn key_of_row(&self, columns: &[ColumnId], row: &[u8]) -> Key {
        let mut encoder = self.encoder_of(columns);
        self.encode_row_key(columns, row, &mut encoder);
        encoder.finish()
    }

    /// An encoder for keys over `columns`: keys of numbers take just its room, so that nothing is
    /// moved.
    fn encoder_of(&self, columns: &[ColumnId]) -> KeyEncoder {
        let size = |column: &ColumnId| {
            let column = &self.columns[usize::from(column.0)];
            column.column_type.size_in_fixed_part() + usize::from(column.nullable)
        };
        KeyEncoder::with_capacity(columns.iter().map(size).sum())
    }

    /// Appends the key of an encoded row over `columns` to `encoder`, which the caller reuses.
    pub fn encode_row_key(&self, columns: &[ColumnId], row: &[u8], encoder: &mut KeyEncoder) {
        let layout = self.layout_of(row);
        for column in columns {
            let value = layout.get(row, *column).unwrap_or_else(|| {
                // The row is older than the column.
                self.columns[usize::from(column.0)].default.as_ref()
            });
            self.encode_column(encoder, *column, value)
                .expect("a stored row holds values that fit its columns");
        }
    }

    /// Whether the key of an encoded row over `columns` is `key`: as `key_of_row`, without
    /// encoding the row's key.
    #[inline]
    pub fn row_has_key(&self, columns: &[ColumnId], row: &[u8], key: &[u8]) -> bool {
        let layout = self.layout_of(row);
        let mut rest = key;
        for column in columns {
            let definition = &self.columns[usize::from(column.0)];
            let value = layout.get(row, *column).unwrap_or(definition.default.as_ref());
            match strip_value(rest, definition.column_type, definition.nullable, value) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// Whether these bytes are a well-formed row of any of the table's layouts.
    pub fn is_row(&self, row: &[u8]) -> bool {
        let version = row.first().map(|version| usize::from(*version));
        let layout = version.and_then(|version| self.layouts.get(version));
        layout.is_some_and(|layout| layout.check(row))
    }

    /// The layout an encoded row was written in.
    pub fn layout_of(&self, row: &[u8]) -> &RowLayout {
        &self.layouts[usize::from(RowLayout::version_of(row))]
    }

    /// The value of one column of an encoded row of any layout.
    pub fn value<'a>(&'a self, row: &'a [u8], column: ColumnId) -> ValueRef<'a> {
        self.layout_of(row)
            .get(row, column)
            .unwrap_or_else(|| self.columns[usize::from(column.0)].default.as_ref())
    }

    /// The value of one column of an encoded row of any layout as rows of the newest one hold it:
    /// NULL in a hole, which rows older than that may have a value in.
    pub fn value_now<'a>(&'a self, row: &'a [u8], column: ColumnId) -> ValueRef<'a> {
        let definition = &self.columns[usize::from(column.0)];
        let before = self.layout_of(row).column_type(column);
        if before.is_none_or(|before| before.widens_to(definition.column_type)) {
            self.value(row, column)
        } else {
            ValueRef::Null
        }
    }

    /// Whether a column may become `to`, of whatever name, while rows of older layouts and the
    /// keys that are there stay as they are: the new type takes all values of the old one, or it
    /// is a hole, and every key encodes the value as before.
    pub fn can_modify(&self, id: ColumnId, to: &Column) -> bool {
        let Some(before) = self.columns.get(usize::from(id.0)) else { return false };
        let same_type = before.column_type == to.column_type;
        let same_nullable = before.nullable == to.nullable;
        let widened = before.column_type.widens_to(to.column_type)
            && (to.nullable || !before.nullable)
            && before.default == to.default;
        if !widened && !to.is_hole() {
            return false;
        }
        // Hidden tables have these columns too, by the definitions that they were made with.
        let unique = self.unique_indexes.iter().flat_map(|index| &index.columns);
        if self.primary_key.iter().chain(unique).any(|column| *column == id) {
            return same_type && same_nullable;
        }
        let large = self.large.as_ref();
        if large.is_some_and(|large| large.columns.contains(&id) || large.references == id) {
            return same_type && widened;
        }
        // How many weights of a text count depends on its longest length; bytes are all there.
        let is_bytes = matches!(before.column_type, ColumnType::Variable(_));
        let same_keys = same_nullable && widened && (same_type || is_bytes);
        same_keys || !self.ordered_indexes.iter().any(|index| index.columns.contains(&id))
    }

    /// Whether columns of `older`, an earlier definition of the same table, are of the same types:
    /// what was projected by the one can be read by the other.
    pub fn has_types_of(&self, older: &Table, mut columns: impl Iterator<Item = ColumnId>) -> bool {
        let same = |column: ColumnId| {
            let [now, before] = [self, older].map(|t| t.columns.get(usize::from(column.0)));
            now.zip(before).is_some_and(|(now, before)| {
                now.column_type == before.column_type && now.nullable == before.nullable
            })
        };
        // Another type makes another layout.
        self.layouts.len() == older.layouts.len() || columns.all(same)
    }

    /// All values of an encoded row of any layout, in column order.
    pub fn values(&self, row: &[u8]) -> Vec<Value> {
        (0..self.columns.len() as u16).map(|c| self.value(row, ColumnId(c)).to_value()).collect()
    }

    fn encode_column(
        &self,
        encoder: &mut KeyEncoder,
        column: ColumnId,
        value: ValueRef<'_>,
    ) -> Option<()> {
        let definition = &self.columns[usize::from(column.0)];
        encoder.push(definition.column_type, definition.nullable, value)
    }

    /// Whether changes of hidden tables follow from those of rows, which the coordinator makes of
    /// the rows before and after.
    #[inline]
    pub fn is_followed(&self) -> bool {
        !self.unique_indexes.is_empty() || self.journal.is_some()
    }

    /// The columns of an entry of a unique index, in their order: those that are indexed, then
    /// those of the primary key that are not among them.
    pub fn entry_columns<'a>(
        &'a self,
        index: &'a UniqueIndexDef,
    ) -> impl Iterator<Item = ColumnId> + 'a {
        let rest = self.primary_key.iter().filter(|column| !index.columns.contains(column));
        index.columns.iter().chain(rest).copied()
    }

    /// The ordered index with this identity.
    pub fn ordered_index(&self, id: IndexId) -> Option<&OrderedIndexDef> {
        self.ordered_indexes.iter().find(|index| index.id == id)
    }

    /// The ordered indexes that are complete.
    pub fn online_indexes(&self) -> impl Iterator<Item = &OrderedIndexDef> {
        self.ordered_indexes.iter().filter(|index| index.state == IndexState::Online)
    }

    /// The unique index with this identity.
    pub fn unique_index(&self, id: IndexId) -> Option<&UniqueIndexDef> {
        self.unique_indexes.iter().find(|index| index.id == id)
    }

    /// The key of an encoded row over the columns of a unique index; `None` when one is NULL.
    pub fn unique_key_of_row(&self, index: &UniqueIndexDef, row: &[u8]) -> Option<Key> {
        if index.columns.iter().any(|c| self.value(row, *c).is_null()) {
            return None;
        }
        Some(self.key_of_row(&index.columns, row))
    }
}
