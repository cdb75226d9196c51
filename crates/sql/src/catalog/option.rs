//! Options of tables: character set, comment, partitioning, and those that other engines know.
//!
//! # Owns
//! Which options have a meaning here, which are kept to be shown, which are ignored as MySQL
//! ignores options another engine would use.
//! # Not here
//! Options of databases (`database`).

use collation::CollationId;
use model::schema::BUCKET_COUNT;
use sql_expression::{SqlError, same_name};
use sql_parser::ast::{self, CharacterSet, PartitionMethod, TableOption};

use super::column::{charset, check_pair, collation};
use super::rules::Rules;
use super::{
    ColumnDefinition, KeyDefinition, KeyKind, PartitionByKey, TableCollation, TableOptions, error,
};

/// Longest comment of a table, in characters.
const COMMENT_LENGTH_MAX: usize = 2048;

/// Options that are kept to be shown, in the order MySQL shows them. ROW_FORMAT stands among them.
pub(crate) const SHOWN: [&str; 12] = [
    "MIN_ROWS",
    "MAX_ROWS",
    "AVG_ROW_LENGTH",
    "PACK_KEYS",
    "STATS_PERSISTENT",
    "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES",
    "CHECKSUM",
    "DELAY_KEY_WRITE",
    "KEY_BLOCK_SIZE",
    "COMPRESSION",
    "ENCRYPTION",
];

/// Why a place for the files of a table is refused.
const NO_FILES: &str = "a table has no files of its own";
/// Why another medium than memory is refused.
pub(crate) const IN_MEMORY: &str = "rows are in memory";

/// Engines whose tables may be created here without a word.
const OWN_ENGINES: [&str; 4] = ["ndbcluster", "ndb", "innodb", "nines"];
/// Engines that MySQL has.
const OTHER_ENGINES: [&str; 10] = [
    "archive",
    "blackhole",
    "csv",
    "example",
    "federated",
    "heap",
    "memory",
    "merge",
    "mrg_myisam",
    "myisam",
];

/// The options of a new table.
pub(crate) fn define(
    options: &[TableOption],
    of_database: CollationId,
    rules: &mut Rules<'_>,
) -> Result<TableOptions, SqlError> {
    let mut defined = TableOptions { collation: TableCollation(of_database), ..Default::default() };
    for option in options {
        apply(&mut defined, option, rules)?;
    }
    if let Some(collation) = text_options(options, of_database)? {
        defined.collation = TableCollation(collation);
    }
    Ok(defined)
}

/// Changes one option; CHARACTER SET and COLLATE belong together, see [`text_options`].
pub(crate) fn apply(
    options: &mut TableOptions,
    option: &TableOption,
    rules: &mut Rules<'_>,
) -> Result<(), SqlError> {
    match option {
        TableOption::Engine(name) => note_engine(name.as_str(), rules),
        TableOption::AutoIncrement(first) => options.auto_increment = Some(*first),
        TableOption::Comment(comment) => {
            if comment.chars().count() > COMMENT_LENGTH_MAX {
                return Err(error::comment_too_long("table", rules.table, COMMENT_LENGTH_MAX));
            }
            options.comment = comment.as_ref().to_owned();
        }
        TableOption::RowFormat(format) => {
            options.row_format = match &**format {
                "default" => None,
                format => Some(format.to_ascii_uppercase()),
            };
        }
        TableOption::Number { name, value } => {
            let value = value.map(|value| value.to_string());
            set_shown(options, name, value);
        }
        TableOption::Text { name, value } => {
            promised(name, value, rules)?;
            let value = match &**name {
                // Said of a table that is, also where nothing is encrypted any more.
                "encryption" => {
                    let granted = rules.encrypted && value.eq_ignore_ascii_case("y");
                    granted.then(|| "Y".to_owned())
                }
                _ => (!value.is_empty()).then(|| value.as_ref().to_owned()),
            };
            set_shown(options, name, value);
        }
        TableOption::Tablespace(name) => {
            rules.promised(&format!("TABLESPACE {}", name.as_str()), NO_FILES)?;
        }
        TableOption::Storage(medium) if &**medium == "disk" => {
            rules.promised("STORAGE DISK", IN_MEMORY)?;
        }
        TableOption::Charset(_)
        | TableOption::Collate(_)
        | TableOption::SecondaryEngine(_)
        | TableOption::Storage(_) => {}
        TableOption::Union(_) => return Err(error::unsupported("UNION of tables")),
    }
    Ok(())
}

/// Refuses an option with a text that promises something which nothing keeps.
fn promised(name: &str, value: &str, rules: &mut Rules<'_>) -> Result<(), SqlError> {
    match name {
        "data directory" | "index directory" => {
            rules.promised(&name.to_ascii_uppercase(), NO_FILES)
        }
        "encryption" if matches!(value, "Y" | "y") && rules.encrypted => Ok(()),
        "encryption" if !matches!(value, "" | "N" | "n") => {
            let why = "files are not encrypted: that takes EncryptedFileSystem=1 for all nodes";
            rules.promised(&format!("ENCRYPTION='{value}'"), why)
        }
        _ => Ok(()),
    }
}

fn set_shown(options: &mut TableOptions, name: &str, value: Option<String>) {
    let known = SHOWN.iter().find(|shown| shown.eq_ignore_ascii_case(name));
    let Some(known) = known else { return };
    options.others.retain(|(other, _)| other != known);
    // Zero means that nothing is said.
    let zero_is_none = !matches!(*known, "PACK_KEYS" | "STATS_PERSISTENT" | "STATS_AUTO_RECALC");
    if let Some(value) = value.filter(|value| !(zero_is_none && value == "0")) {
        options.others.push((known, value));
        let place = |name: &str| SHOWN.iter().position(|shown| *shown == name);
        options.others.sort_by_key(|(name, _)| place(name));
    }
}

fn note_engine(name: &str, rules: &mut Rules<'_>) {
    let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is(&OWN_ENGINES) {
        return;
    }
    if !is(&OTHER_ENGINES) {
        rules.note(error::unknown_engine(name));
    }
    let table = rules.table;
    rules.note(error::engine_replaced(table));
}

/// The collation that CHARACTER SET and COLLATE among the options choose; none where neither is
/// there. A later word wins over an earlier one of its kind, but two character sets may not differ.
pub(crate) fn text_options(
    options: &[TableOption],
    of_database: CollationId,
) -> Result<Option<CollationId>, SqlError> {
    let mut chosen_charset = None;
    let mut chosen_collation = None;
    for option in options {
        match option {
            TableOption::Charset(set) => {
                let set = named_charset(set, of_database)?;
                match chosen_charset {
                    Some(other) if other != set => {
                        let word =
                            |set: collation::Charset| format!("CHARACTER SET {}", set.name());
                        return Err(error::conflicting_charsets(&word(other), &word(set)));
                    }
                    _ => chosen_charset = Some(set),
                }
            }
            TableOption::Collate(name) => chosen_collation = Some(collation(name.as_str())?),
            _ => {}
        }
    }
    match (chosen_charset, chosen_collation) {
        (Some(set), Some(collation)) => check_pair(set, collation).map(|()| Some(collation)),
        (Some(set), None) => Ok(Some(set.default_collation())),
        (None, collation) => Ok(collation),
    }
}

/// A character set by name; DEFAULT is the one around.
pub(crate) fn named_charset(
    set: &CharacterSet,
    around: CollationId,
) -> Result<collation::Charset, SqlError> {
    match set {
        CharacterSet::Name(name) => charset(name.as_str()),
        CharacterSet::Default => Ok(around.charset()),
    }
}

/// PARTITION BY KEY; other ways to partition are refused by name.
pub(crate) fn partitioning(
    declared: &ast::Partitioning,
    rules: &mut Rules<'_>,
) -> Result<PartitionByKey, SqlError> {
    for option in declared.partitions.iter().flat_map(|partition| &partition.options) {
        match option {
            TableOption::Number { name, value: Some(_) } if &**name == "nodegroup" => {
                rules.promised("NODEGROUP", "the cluster places partitions by itself")?;
            }
            placed => apply(&mut TableOptions::default(), placed, rules)?,
        }
    }
    let (linear, columns) = match &declared.method {
        PartitionMethod::Key { linear, columns, .. } => (*linear, columns),
        PartitionMethod::Hash { .. } => return Err(error::unsupported("PARTITION BY HASH")),
        PartitionMethod::Range(_) | PartitionMethod::RangeColumns(_) => {
            return Err(error::unsupported("PARTITION BY RANGE"));
        }
        PartitionMethod::List(_) | PartitionMethod::ListColumns(_) => {
            return Err(error::unsupported("PARTITION BY LIST"));
        }
    };
    if declared.subpartition.is_some() {
        return Err(error::unsupported("SUBPARTITION"));
    }
    let listed = (!declared.partitions.is_empty()).then_some(declared.partitions.len() as u64);
    let count = declared.count.or(listed).map(partition_count).transpose()?;
    let columns = columns.iter().map(|column| column.as_str().to_owned()).collect();
    Ok(PartitionByKey { columns, count, linear })
}

/// A number of partitions that a table may have.
pub(crate) fn partition_count(count: u64) -> Result<u16, SqlError> {
    match u16::try_from(count) {
        Ok(0) => Err(error::no_partitions()),
        Ok(count) if count <= BUCKET_COUNT => Ok(count),
        _ => Err(error::too_many_partitions()),
    }
}

/// The columns of PARTITION BY KEY are columns of the primary key.
pub(crate) fn check_partitioning(
    options: &TableOptions,
    columns: &[ColumnDefinition],
    keys: &[KeyDefinition],
) -> Result<(), SqlError> {
    let Some(partitioning) = &options.partitioning else { return Ok(()) };
    let primary = keys.first().filter(|key| key.kind == KeyKind::Primary);
    for name in &partitioning.columns {
        let Some((at, _)) = super::column_named(columns, name) else {
            return Err(error::unknown_partition_column());
        };
        let Some(primary) = primary else {
            return Err(error::unsupported("PARTITION BY KEY of a table without PRIMARY KEY"));
        };
        if !primary.columns.iter().any(|part| part.declared == at && part.prefix_length.is_none()) {
            return Err(error::partition_outside_primary_key());
        }
    }
    let mut names = partitioning.columns.iter();
    while let Some(name) = names.next() {
        if names.as_slice().iter().any(|other| same_name(other, name)) {
            return Err(error::duplicate_column(name));
        }
    }
    Ok(())
}
