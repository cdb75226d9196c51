//! Definitions of tables, as they are in a catalog and as they are asked for.

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnType, Description, Epoch, IndexId, IndexState, LargeForm,
    OrderedIndexDef, RowLayout, SchemaChange, Table, TableId, UniqueIndexDef, Value,
};

/// A signed integer of 8 bytes.
pub const BIGINT: ColumnType = ColumnType::Int(8);
/// A signed integer of 4 bytes.
pub const INT: ColumnType = ColumnType::Int(4);

/// A column that allows no NULL. Its default is zero, the empty text or zero bytes.
pub fn column(name: &str, column_type: ColumnType) -> Column {
    let default = match column_type {
        ColumnType::Int(_) => Value::Int(0),
        ColumnType::UInt(_) => Value::UInt(0),
        ColumnType::Float => Value::Float(0.0),
        ColumnType::Fixed(size) => Value::Bytes(vec![0; usize::from(size)].into()),
        ColumnType::Variable(_) | ColumnType::Text { .. } => Value::text(""),
    };
    Column { name: name.into(), column_type, nullable: false, default }
}

/// A column that allows NULL, which is its default.
pub fn nullable(name: &str, column_type: ColumnType) -> Column {
    Column { name: name.into(), column_type, nullable: true, default: Value::Null }
}

/// Begins the definition of a table with this full name, `database.table`.
pub fn table(name: impl Into<String>) -> TableBuilder {
    TableBuilder {
        id: TableId(1),
        name: name.into(),
        version: 1,
        columns: vec![],
        primary_key: vec![],
        distribution_key: vec![],
        partition_count: None,
        indexes: vec![],
        large: None,
        description: Description::default(),
    }
}

/// A definition under construction.
///
/// Unless told otherwise it has identity 1 and version 1, its first column is the primary key, the
/// whole primary key is the distribution key, there is one partition, and indexes are online.
#[derive(Clone, Debug)]
#[must_use = "a definition is made by `build` or `create`"]
pub struct TableBuilder {
    id: TableId,
    name: String,
    version: u32,
    columns: Vec<Column>,
    primary_key: Vec<String>,
    distribution_key: Vec<String>,
    partition_count: Option<u16>,
    indexes: Vec<Index>,
    large: Option<Box<LargeForm>>,
    description: Description,
}

/// An index under construction.
#[derive(Clone, Debug)]
struct Index {
    id: IndexId,
    name: String,
    columns: Vec<String>,
    /// The hidden table of a unique index; an ordered one has none.
    hidden: Option<TableId>,
}

impl TableBuilder {
    /// The table's identity.
    pub fn id(self, id: TableId) -> Self {
        Self { id, ..self }
    }

    /// The number of the definition's version.
    pub fn version(self, version: u32) -> Self {
        Self { version, ..self }
    }

    /// Adds a column that allows no NULL, as [`column`] makes it.
    pub fn column(self, name: &str, column_type: ColumnType) -> Self {
        self.columns([column(name, column_type)])
    }

    /// Adds a column that allows NULL, as [`nullable`] makes it.
    pub fn nullable(self, name: &str, column_type: ColumnType) -> Self {
        self.columns([nullable(name, column_type)])
    }

    /// Adds columns.
    pub fn columns(mut self, columns: impl IntoIterator<Item = Column>) -> Self {
        self.columns.extend(columns);
        self
    }

    /// The columns of the primary key, in the key's order.
    pub fn primary_key<const N: usize>(self, columns: [&str; N]) -> Self {
        Self { primary_key: columns.map(String::from).into(), ..self }
    }

    /// The columns whose hash places a row, in the order of their hash.
    pub fn distribution_key<const N: usize>(self, columns: [&str; N]) -> Self {
        Self { distribution_key: columns.map(String::from).into(), ..self }
    }

    /// The number of partitions.
    pub fn partitions(self, count: u16) -> Self {
        Self { partition_count: Some(count), ..self }
    }

    /// Adds an ordered index.
    pub fn index<const N: usize>(self, name: &str, columns: [&str; N]) -> Self {
        self.add(name, columns, None)
    }

    /// Adds a unique index. The identity of its hidden table is one above the last one before it.
    pub fn unique<const N: usize>(self, name: &str, columns: [&str; N]) -> Self {
        let last = self.indexes.iter().filter_map(|index| index.hidden).next_back();
        let hidden = TableId(last.unwrap_or(self.id).0 + 1);
        self.add(name, columns, Some(hidden))
    }

    /// Gives the index that was added last this identity. Without it the first index has 1, the
    /// second 2, and so on.
    #[track_caller]
    pub fn with_index_id(mut self, id: IndexId) -> Self {
        self.indexes.last_mut().expect("an index was added").id = id;
        self
    }

    /// The columns whose values may lie outside of rows, and the one that says which do. Only a
    /// table that is asked for by [`TableBuilder::create`] has such columns: its parts' table is
    /// made with it.
    pub fn large(self, columns: &[ColumnId], references: ColumnId) -> Self {
        let columns = columns.iter().map(|column| column.0).collect();
        let form = LargeForm { columns, references: references.0 };
        Self { large: Some(Box::new(form)), ..self }
    }

    /// What the SQL layer keeps about the table.
    pub fn description(self, description: impl Into<Description>) -> Self {
        Self { description: description.into(), ..self }
    }

    /// The definition, as the catalog has it.
    ///
    /// # Panics
    /// When a key or an index names no column of the table.
    #[track_caller]
    pub fn build(self) -> Table {
        assert!(self.large.is_none(), "the parts' table is made by the catalog");
        let columns = |names: &[String]| -> Vec<ColumnId> {
            self.positions(names).into_iter().map(ColumnId).collect()
        };
        let primary_key = columns(&self.key());
        let distribution_key = match &self.distribution_key[..] {
            [] => primary_key.clone(),
            names => columns(names),
        };
        let state = IndexState::Online;
        let (mut ordered_indexes, mut unique_indexes) = (vec![], vec![]);
        for Index { id, name, columns: names, hidden } in &self.indexes {
            let (id, name, columns) = (*id, name.clone(), columns(names));
            match *hidden {
                None => ordered_indexes.push(OrderedIndexDef { id, name, columns, state }),
                Some(table) => unique_indexes.push(UniqueIndexDef {
                    id,
                    name,
                    columns,
                    table,
                    state,
                    complete: Epoch(0),
                }),
            }
        }
        Table {
            id: self.id,
            name: self.name,
            version: self.version,
            hidden_behind: None,
            primary_key,
            distribution_key,
            partition_count: self.partition_count.unwrap_or(1),
            layouts: vec![Arc::new(RowLayout::new(0, &self.columns))],
            columns: self.columns,
            ordered_indexes,
            unique_indexes,
            large: None,
            writes_blocked: false,
            journal: None,
            alike: None,
            description: self.description,
        }
    }

    /// The change of the schema that asks for the table. The cluster chooses all identities, and
    /// how many partitions there are unless the builder was told.
    ///
    /// # Panics
    /// When a key or an index names no column of the table.
    #[track_caller]
    pub fn create(self) -> SchemaChange {
        let named = |index: &Index| (index.name.clone(), self.positions(&index.columns));
        let of_kind = |is_unique| {
            let indexes =
                self.indexes.iter().filter(move |index| index.hidden.is_some() == is_unique);
            indexes.map(named).collect()
        };
        SchemaChange::CreateTable {
            primary_key: self.positions(&self.key()),
            distribution_key: self.positions(&self.distribution_key),
            partition_count: self.partition_count.unwrap_or(0),
            ordered_indexes: of_kind(false),
            unique_indexes: of_kind(true),
            name: self.name,
            columns: self.columns,
            large: self.large,
            description: self.description,
        }
    }

    fn add<const N: usize>(
        mut self,
        name: &str,
        columns: [&str; N],
        hidden: Option<TableId>,
    ) -> Self {
        let id = IndexId(self.indexes.len() as u32 + 1);
        let columns = columns.map(String::from).into();
        self.indexes.push(Index { id, name: name.into(), columns, hidden });
        self
    }

    /// The names of the primary key's columns.
    fn key(&self) -> Vec<String> {
        if !self.primary_key.is_empty() {
            return self.primary_key.clone();
        }
        self.columns.iter().take(1).map(|column| column.name.clone()).collect()
    }

    #[track_caller]
    fn positions(&self, names: &[String]) -> Vec<u16> {
        let mut positions = Vec::with_capacity(names.len());
        for name in names {
            let position = self.columns.iter().position(|column| column.name == *name);
            let Some(position) = position else { panic!("{}: no column {name}", self.name) };
            positions.push(position as u16);
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_has_what_it_was_told_and_defaults_for_the_rest() {
        let built = table("d.t")
            .column("a", BIGINT)
            .column("b", INT)
            .nullable("c", ColumnType::Variable(9))
            .primary_key(["b", "a"])
            .index("by_c", ["c", "a"])
            .unique("once", ["c"])
            .with_index_id(IndexId(7))
            .build();
        assert_eq!((built.id, built.version, built.partition_count), (TableId(1), 1, 1));
        assert_eq!(built.primary_key, [ColumnId(1), ColumnId(0)]);
        assert_eq!(built.distribution_key, built.primary_key);
        let ordered = &built.ordered_indexes[0];
        assert_eq!(
            (ordered.id, &ordered.columns[..]),
            (IndexId(1), &[ColumnId(2), ColumnId(0)][..])
        );
        let unique = &built.unique_indexes[0];
        assert_eq!((unique.id, unique.table), (IndexId(7), TableId(2)));
        assert_eq!(built.columns[2], nullable("c", ColumnType::Variable(9)));
        let row = [Value::Int(1), Value::Int(2), Value::Null];
        let row = built.layout().encode_values(&row).expect("it fits");
        assert!(built.is_row(&row.0));
    }

    #[test]
    fn a_table_is_asked_for_by_positions() {
        let SchemaChange::CreateTable {
            primary_key,
            distribution_key,
            partition_count,
            ordered_indexes,
            unique_indexes,
            ..
        } = table("d.t")
            .columns([column("a", BIGINT), column("b", INT)])
            .primary_key(["a", "b"])
            .distribution_key(["b"])
            .unique("once", ["b"])
            .index("by_b", ["b", "a"])
            .create()
        else {
            panic!("another change")
        };
        assert_eq!((primary_key, distribution_key, partition_count), (vec![0, 1], vec![1], 0));
        assert_eq!(ordered_indexes, [("by_b".to_owned(), vec![1, 0])]);
        assert_eq!(unique_indexes, [("once".to_owned(), vec![1])]);
    }

    #[test]
    #[should_panic(expected = "d.t: no column z")]
    fn an_index_names_columns_of_its_table() {
        let _ = table("d.t").column("a", INT).index("by_z", ["z"]).build();
    }
}
