//! Tables and indexes: CREATE, ALTER, DROP.

use super::{CharacterSet, DataType, Expr, Ident, ObjectName, OrderItem, Query};

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTable {
    /// TEMPORARY.
    pub temporary: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The table.
    pub name: ObjectName,
    /// What it consists of.
    pub definition: TableDefinition,
}

/// What a new table consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableDefinition {
    /// LIKE another table.
    Like(ObjectName),
    /// Columns, keys, options; with a query also its columns and rows.
    Columns(Box<TableBody>),
}

/// Columns, keys, options of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableBody {
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Keys, foreign keys and checks, in order, those at columns left out.
    pub constraints: Vec<TableConstraint>,
    /// Options in order; a later one wins.
    pub options: Vec<TableOption>,
    /// PARTITION BY.
    pub partitioning: Option<Box<Partitioning>>,
    /// AS SELECT.
    pub query: Option<CreateSelect>,
}

/// The query of CREATE TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSelect {
    /// What to do about rows with an existing unique key.
    pub duplicates: Option<super::LoadDuplicates>,
    /// The query.
    pub query: Box<Query>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub data_type: DataType,
    /// The rest.
    pub attributes: ColumnAttributes,
}

/// What is said of a column beside its type. Of contradicting words the last one wins, as in MySQL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnAttributes {
    /// COLLATE.
    pub collation: Option<Ident>,
    /// NULL or NOT NULL, if said.
    pub nullable: Option<bool>,
    /// DEFAULT.
    pub default: Option<ColumnDefault>,
    /// ON UPDATE CURRENT_TIMESTAMP with its fractional digits.
    pub on_update: Option<u32>,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// PRIMARY KEY.
    pub primary_key: bool,
    /// UNIQUE.
    pub unique: bool,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// GENERATED ALWAYS AS.
    pub generated: Option<GeneratedColumn>,
    /// VISIBLE or INVISIBLE, if said.
    pub visible: Option<bool>,
    /// CHECK.
    pub checks: Vec<CheckConstraint>,
    /// REFERENCES, which MySQL 8.0 parses and ignores at a column.
    pub references: Option<Box<References>>,
    /// COLUMN_FORMAT, lower case.
    pub column_format: Option<Box<str>>,
    /// STORAGE, lower case.
    pub storage: Option<Box<str>>,
    /// SRID.
    pub srid: Option<u32>,
    /// ENGINE_ATTRIBUTE.
    pub engine_attribute: Option<Box<str>>,
    /// SECONDARY_ENGINE_ATTRIBUTE.
    pub secondary_engine_attribute: Option<Box<str>>,
    /// NOT SECONDARY.
    pub not_secondary: bool,
}

/// DEFAULT of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnDefault {
    /// A literal, with its sign.
    Literal(Expr),
    /// CURRENT_TIMESTAMP with its fractional digits.
    CurrentTimestamp(u32),
    /// An expression in parentheses.
    Expr(Expr),
}

/// GENERATED ALWAYS AS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedColumn {
    /// The expression.
    pub expr: Expr,
    /// STORED, else VIRTUAL.
    pub stored: bool,
}

/// CHECK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckConstraint {
    /// CONSTRAINT, if named.
    pub name: Option<Ident>,
    /// The condition.
    pub expr: Expr,
    /// NOT ENFORCED is false.
    pub enforced: bool,
}

/// A key, foreign key or check of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableConstraint {
    /// A primary, unique or other index.
    Index(IndexDefinition),
    /// FOREIGN KEY.
    ForeignKey(Box<ForeignKey>),
    /// CHECK.
    Check(CheckConstraint),
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// Which kind.
    pub kind: IndexKind,
    /// Its name; of a unique or primary key, the constraint's where it has none of its own.
    pub name: Option<Ident>,
    /// What it is over.
    pub parts: Vec<IndexPart>,
    /// The rest.
    pub options: IndexOptions,
}

/// The kinds of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// KEY or INDEX.
    Plain,
    /// FULLTEXT.
    Fulltext,
    /// SPATIAL.
    Spatial,
}

/// A part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPart {
    /// A column or an expression.
    pub target: IndexTarget,
    /// DESC.
    pub descending: bool,
}

/// What a part of an index is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexTarget {
    /// A column, with the length of its prefix.
    Column(Ident, Option<u32>),
    /// An expression in parentheses.
    Expr(Expr),
}

/// The options of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexOptions {
    /// USING.
    pub method: Option<IndexMethod>,
    /// KEY_BLOCK_SIZE.
    pub key_block_size: Option<u64>,
    /// COMMENT.
    pub comment: Option<Box<str>>,
    /// WITH PARSER.
    pub parser: Option<Ident>,
    /// VISIBLE or INVISIBLE, if said.
    pub visible: Option<bool>,
    /// ENGINE_ATTRIBUTE.
    pub engine_attribute: Option<Box<str>>,
    /// SECONDARY_ENGINE_ATTRIBUTE.
    pub secondary_engine_attribute: Option<Box<str>>,
}

/// How an index is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexMethod {
    /// BTREE.
    Btree,
    /// HASH.
    Hash,
    /// RTREE.
    Rtree,
}

/// FOREIGN KEY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// CONSTRAINT, if named.
    pub constraint: Option<Ident>,
    /// The name of its index, if given.
    pub index: Option<Ident>,
    /// The columns of this table.
    pub columns: Vec<Ident>,
    /// What they refer to.
    pub references: References,
}

/// REFERENCES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    /// The other table.
    pub table: ObjectName,
    /// Its columns.
    pub columns: Vec<Ident>,
    /// MATCH, if said.
    pub matching: Option<ForeignKeyMatch>,
    /// ON DELETE.
    pub on_delete: Option<ReferentialAction>,
    /// ON UPDATE.
    pub on_update: Option<ReferentialAction>,
}

/// MATCH of a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyMatch {
    /// FULL.
    Full,
    /// PARTIAL.
    Partial,
    /// SIMPLE.
    Simple,
}

/// What happens to rows that refer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// RESTRICT.
    Restrict,
    /// CASCADE.
    Cascade,
    /// SET NULL.
    SetNull,
    /// NO ACTION.
    NoAction,
    /// SET DEFAULT.
    SetDefault,
}

/// An option of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableOption {
    /// ENGINE.
    Engine(Ident),
    /// SECONDARY_ENGINE, or none for NULL.
    SecondaryEngine(Option<Ident>),
    /// AUTO_INCREMENT.
    AutoIncrement(u64),
    /// \[DEFAULT\] CHARACTER SET.
    Charset(CharacterSet),
    /// \[DEFAULT\] COLLATE.
    Collate(Ident),
    /// COMMENT.
    Comment(Box<str>),
    /// ROW_FORMAT, lower case.
    RowFormat(Box<str>),
    /// UNION of MERGE tables.
    Union(Vec<ObjectName>),
    /// TABLESPACE.
    Tablespace(Ident),
    /// STORAGE, lower case.
    Storage(Box<str>),
    /// One with a number or DEFAULT: MAX_ROWS, KEY_BLOCK_SIZE and the like.
    Number {
        /// The option, lower case.
        name: Box<str>,
        /// Its value; none for DEFAULT.
        value: Option<u64>,
    },
    /// One with a text: CONNECTION, COMPRESSION, DATA DIRECTORY and the like.
    Text {
        /// The option, lower case.
        name: Box<str>,
        /// Its value.
        value: Box<str>,
    },
}

/// PARTITION BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// By what.
    pub method: PartitionMethod,
    /// PARTITIONS.
    pub count: Option<u64>,
    /// SUBPARTITION BY, a hash or a key.
    pub subpartition: Option<PartitionMethod>,
    /// SUBPARTITIONS.
    pub subpartition_count: Option<u64>,
    /// The partitions, if listed.
    pub partitions: Vec<PartitionDefinition>,
}

/// How rows are spread over partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionMethod {
    /// HASH of an expression.
    Hash {
        /// LINEAR.
        linear: bool,
        /// The expression.
        expr: Expr,
    },
    /// KEY of columns; none for those of the primary key.
    Key {
        /// LINEAR.
        linear: bool,
        /// ALGORITHM.
        algorithm: Option<u64>,
        /// The columns.
        columns: Vec<Ident>,
    },
    /// RANGE of an expression.
    Range(Expr),
    /// RANGE COLUMNS.
    RangeColumns(Vec<Ident>),
    /// LIST of an expression.
    List(Expr),
    /// LIST COLUMNS.
    ListColumns(Vec<Ident>),
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDefinition {
    /// Its name.
    pub name: Ident,
    /// Which rows it takes.
    pub values: Option<PartitionValues>,
    /// Its options: ENGINE, COMMENT, MAX_ROWS and the like.
    pub options: Vec<TableOption>,
    /// Its subpartitions.
    pub subpartitions: Vec<SubpartitionDefinition>,
}

/// A subpartition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubpartitionDefinition {
    /// Its name.
    pub name: Ident,
    /// Its options.
    pub options: Vec<TableOption>,
}

/// Which rows a partition takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionValues {
    /// VALUES LESS THAN, one bound for each column; none for MAXVALUE.
    LessThan(Vec<Option<Expr>>),
    /// VALUES IN, each a row of values.
    In(Vec<Vec<Expr>>),
}

/// DROP TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropTable {
    /// TEMPORARY.
    pub temporary: bool,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The tables.
    pub tables: Vec<ObjectName>,
}

/// ALTER TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTable {
    /// The table.
    pub table: ObjectName,
    /// What is changed, in order.
    pub actions: Vec<AlterAction>,
    /// ALGORITHM.
    pub algorithm: Option<AlterAlgorithm>,
    /// LOCK.
    pub lock: Option<AlterLock>,
    /// WITH VALIDATION or WITHOUT VALIDATION, if said.
    pub validation: Option<bool>,
}

/// ALGORITHM of DDL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterAlgorithm {
    /// DEFAULT.
    Default,
    /// INSTANT.
    Instant,
    /// INPLACE.
    Inplace,
    /// COPY.
    Copy,
}

/// LOCK of DDL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterLock {
    /// DEFAULT.
    Default,
    /// NONE.
    None,
    /// SHARED.
    Shared,
    /// EXCLUSIVE.
    Exclusive,
}

/// A change of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AlterAction {
    /// ADD COLUMN, one for each column of a list.
    AddColumn(Box<ColumnDefinition>, Option<ColumnPosition>),
    /// ADD a key, foreign key or check.
    AddConstraint(TableConstraint),
    /// CHANGE: a new name and a new definition.
    ChangeColumn(Ident, Box<ColumnDefinition>, Option<ColumnPosition>),
    /// MODIFY: a new definition.
    ModifyColumn(Box<ColumnDefinition>, Option<ColumnPosition>),
    /// RENAME COLUMN.
    RenameColumn(Ident, Ident),
    /// ALTER COLUMN SET DEFAULT, or DROP DEFAULT for none.
    AlterColumnDefault(Ident, Option<ColumnDefault>),
    /// ALTER COLUMN SET VISIBLE or INVISIBLE.
    AlterColumnVisibility(Ident, bool),
    /// DROP COLUMN.
    DropColumn(Ident),
    /// DROP PRIMARY KEY.
    DropPrimaryKey,
    /// DROP INDEX.
    DropIndex(Ident),
    /// DROP FOREIGN KEY.
    DropForeignKey(Ident),
    /// DROP CHECK.
    DropCheck(Ident),
    /// DROP CONSTRAINT of any kind.
    DropConstraint(Ident),
    /// ALTER CHECK or ALTER CONSTRAINT: ENFORCED or not.
    AlterCheck(Ident, bool),
    /// ALTER INDEX VISIBLE or INVISIBLE.
    AlterIndexVisibility(Ident, bool),
    /// RENAME INDEX.
    RenameIndex(Ident, Ident),
    /// RENAME TO.
    RenameTable(ObjectName),
    /// A table option.
    Option(TableOption),
    /// CONVERT TO CHARACTER SET.
    ConvertCharset(CharacterSet, Option<Ident>),
    /// ORDER BY.
    OrderBy(Vec<OrderItem>),
    /// FORCE.
    Force,
    /// ENABLE KEYS is true, DISABLE KEYS false.
    EnableKeys(bool),
    /// DISCARD or IMPORT TABLESPACE.
    Tablespace {
        /// IMPORT, else DISCARD.
        import: bool,
    },
    /// SECONDARY_LOAD is true, SECONDARY_UNLOAD false.
    SecondaryLoad(bool),
    /// PARTITION BY, or REMOVE PARTITIONING for none.
    Partitioning(Option<Box<Partitioning>>),
    /// ADD PARTITION with definitions.
    AddPartitions(Vec<PartitionDefinition>),
    /// ADD PARTITION PARTITIONS n.
    AddPartitionCount(u64),
    /// DROP PARTITION.
    DropPartitions(Vec<Ident>),
    /// COALESCE PARTITION.
    CoalescePartitions(u64),
    /// REORGANIZE PARTITION; both lists empty for the form without INTO.
    ReorganizePartitions(Vec<Ident>, Vec<PartitionDefinition>),
    /// EXCHANGE PARTITION WITH TABLE.
    ExchangePartition(Ident, ObjectName),
    /// TRUNCATE PARTITION.
    TruncatePartitions(PartitionChoice),
    /// ANALYZE, CHECK, OPTIMIZE, REBUILD, REPAIR, DISCARD, IMPORT PARTITION. Words like QUICK that
    /// say how are not kept.
    MaintainPartitions {
        /// The word, upper case.
        operation: Box<str>,
        /// The partitions.
        partitions: PartitionChoice,
    },
}

/// Partitions by name, or ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionChoice {
    /// ALL.
    All,
    /// These.
    Names(Vec<Ident>),
}

/// Where a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPosition {
    /// FIRST.
    First,
    /// AFTER a column.
    After(Ident),
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateIndex {
    /// The table.
    pub table: ObjectName,
    /// The index, which has a name.
    pub index: IndexDefinition,
    /// ALGORITHM.
    pub algorithm: Option<AlterAlgorithm>,
    /// LOCK.
    pub lock: Option<AlterLock>,
}

/// DROP INDEX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIndex {
    /// The index.
    pub name: Ident,
    /// The table.
    pub table: ObjectName,
    /// ALGORITHM.
    pub algorithm: Option<AlterAlgorithm>,
    /// LOCK.
    pub lock: Option<AlterLock>,
}
