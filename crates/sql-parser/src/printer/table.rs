//! Tables and indexes.

use super::Printer;
use super::manipulation::duplicates_text;
use crate::ast::{
    AlterAction, AlterAlgorithm, AlterLock, AlterTable, CheckConstraint, ColumnAttributes,
    ColumnDefault, ColumnDefinition, ColumnPosition, CreateIndex, CreateTable, DropIndex,
    DropTable, ForeignKey, ForeignKeyMatch, Ident, IndexDefinition, IndexKind, IndexMethod,
    IndexOptions, IndexPart, IndexTarget, PartitionChoice, PartitionDefinition, PartitionMethod,
    PartitionValues, Partitioning, References, ReferentialAction, TableBody, TableConstraint,
    TableDefinition, TableOption,
};

impl Printer<'_> {
    pub(super) fn create_table(&mut self, table: &CreateTable) {
        self.put("CREATE ");
        self.put_if(table.temporary, "TEMPORARY ");
        self.put("TABLE ");
        self.put_if(table.if_not_exists, "IF NOT EXISTS ");
        self.object_name(&table.name);
        match &table.definition {
            TableDefinition::Like(other) => {
                self.put(" LIKE ");
                self.object_name(other);
            }
            TableDefinition::Columns(body) => self.table_body(body),
        }
    }

    fn table_body(&mut self, body: &TableBody) {
        if !body.columns.is_empty() || !body.constraints.is_empty() {
            self.put(" (");
            self.list(&body.columns, ", ", Self::column_definition);
            self.put_if(!body.columns.is_empty() && !body.constraints.is_empty(), ", ");
            self.list(&body.constraints, ", ", Self::table_constraint);
            self.put(")");
        }
        for option in &body.options {
            self.put(" ");
            self.table_option(option);
        }
        if let Some(partitioning) = &body.partitioning {
            self.put(" ");
            self.partitioning(partitioning);
        }
        if let Some(select) = &body.query {
            self.put(duplicates_text(select.duplicates));
            self.put(" AS ");
            self.query(&select.query);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one line or two for each attribute")]
    pub(super) fn column_definition(&mut self, column: &ColumnDefinition) {
        self.ident(&column.name);
        self.put(" ");
        self.data_type(&column.data_type);
        let ColumnAttributes {
            collation,
            nullable,
            default,
            on_update,
            auto_increment,
            primary_key,
            unique,
            comment,
            generated,
            visible,
            checks,
            references,
            column_format,
            storage,
            srid,
            engine_attribute,
            secondary_engine_attribute,
            not_secondary,
        } = &column.attributes;
        if let Some(collation) = collation {
            self.put(" COLLATE ");
            self.collation(collation);
        }
        if let Some(generated) = generated {
            self.put(" GENERATED ALWAYS AS (");
            self.expr(&generated.expr);
            self.put(if generated.stored { ") STORED" } else { ") VIRTUAL" });
        }
        match nullable {
            Some(true) => self.put(" NULL"),
            Some(false) => self.put(" NOT NULL"),
            None => {}
        }
        if let Some(srid) = srid {
            self.put(&format!(" SRID {srid}"));
        }
        if let Some(default) = default {
            self.put(" DEFAULT ");
            self.column_default(default);
        }
        if let Some(digits) = on_update {
            self.put(" ON UPDATE ");
            self.current_timestamp(*digits);
        }
        self.put_if(*auto_increment, " AUTO_INCREMENT");
        self.put_if(*unique, " UNIQUE KEY");
        self.put_if(*primary_key, " PRIMARY KEY");
        self.visibility(*visible);
        self.put_if(*not_secondary, " NOT SECONDARY");
        for (word, value) in [(" COLUMN_FORMAT ", column_format), (" STORAGE ", storage)] {
            if let Some(value) = value {
                self.put(word);
                self.put(value);
            }
        }
        for (word, value) in [
            (" COMMENT ", comment),
            (" ENGINE_ATTRIBUTE ", engine_attribute),
            (" SECONDARY_ENGINE_ATTRIBUTE ", secondary_engine_attribute),
        ] {
            self.text_clause(word, value.as_deref());
        }
        for check in checks {
            self.put(" ");
            self.check(check);
        }
        if let Some(references) = references {
            self.put(" ");
            self.references(references);
        }
    }

    pub(super) fn text_clause(&mut self, word: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.put(word);
            self.text(value);
        }
    }

    fn visibility(&mut self, visible: Option<bool>) {
        match visible {
            Some(true) => self.put(" VISIBLE"),
            Some(false) => self.put(" INVISIBLE"),
            None => {}
        }
    }

    fn column_default(&mut self, default: &ColumnDefault) {
        match default {
            ColumnDefault::Literal(literal) => self.expr(literal),
            ColumnDefault::CurrentTimestamp(digits) => self.current_timestamp(*digits),
            ColumnDefault::Expr(expr) => {
                self.put("(");
                self.expr(expr);
                self.put(")");
            }
        }
    }

    fn current_timestamp(&mut self, digits: u32) {
        self.put("CURRENT_TIMESTAMP");
        if digits > 0 {
            self.put(&format!("({digits})"));
        }
    }

    fn check(&mut self, check: &CheckConstraint) {
        if let Some(name) = &check.name {
            self.put("CONSTRAINT ");
            self.ident(name);
            self.put(" ");
        }
        self.put("CHECK (");
        self.expr(&check.expr);
        self.put(")");
        self.put_if(!check.enforced, " NOT ENFORCED");
    }

    fn table_constraint(&mut self, constraint: &TableConstraint) {
        match constraint {
            TableConstraint::Index(index) => self.index(index),
            TableConstraint::ForeignKey(key) => self.foreign_key(key),
            TableConstraint::Check(check) => self.check(check),
        }
    }

    fn index(&mut self, index: &IndexDefinition) {
        self.put(match index.kind {
            IndexKind::Primary => "PRIMARY KEY",
            IndexKind::Unique => "UNIQUE KEY",
            IndexKind::Plain => "KEY",
            IndexKind::Fulltext => "FULLTEXT KEY",
            IndexKind::Spatial => "SPATIAL KEY",
        });
        if let Some(name) = &index.name {
            self.put(" ");
            self.ident(name);
        }
        self.put(" ");
        self.index_parts(&index.parts);
        self.index_options(&index.options);
    }

    fn index_parts(&mut self, parts: &[IndexPart]) {
        self.put("(");
        self.list(parts, ",", |printer, part| {
            match &part.target {
                IndexTarget::Column(name, length) => {
                    printer.ident(name);
                    if let Some(length) = length {
                        printer.put(&format!("({length})"));
                    }
                }
                IndexTarget::Expr(expr) => {
                    printer.put("(");
                    printer.expr(expr);
                    printer.put(")");
                }
            }
            printer.put_if(part.descending, " DESC");
        });
        self.put(")");
    }

    fn index_options(&mut self, options: &IndexOptions) {
        self.put(match options.method {
            None => "",
            Some(IndexMethod::Btree) => " USING BTREE",
            Some(IndexMethod::Hash) => " USING HASH",
            Some(IndexMethod::Rtree) => " USING RTREE",
        });
        if let Some(size) = options.key_block_size {
            self.put(&format!(" KEY_BLOCK_SIZE={size}"));
        }
        self.text_clause(" COMMENT ", options.comment.as_deref());
        if let Some(parser) = &options.parser {
            self.put(" WITH PARSER ");
            self.ident(parser);
        }
        self.visibility(options.visible);
        self.text_clause(" ENGINE_ATTRIBUTE ", options.engine_attribute.as_deref());
        let secondary = options.secondary_engine_attribute.as_deref();
        self.text_clause(" SECONDARY_ENGINE_ATTRIBUTE ", secondary);
    }

    fn foreign_key(&mut self, key: &ForeignKey) {
        if let Some(name) = &key.constraint {
            self.put("CONSTRAINT ");
            self.ident(name);
            self.put(" ");
        }
        self.put("FOREIGN KEY ");
        if let Some(index) = &key.index {
            self.ident(index);
            self.put(" ");
        }
        self.ident_list(&key.columns);
        self.put(" ");
        self.references(&key.references);
    }

    fn references(&mut self, references: &References) {
        self.put("REFERENCES ");
        self.object_name(&references.table);
        self.optional_ident_list(" ", &references.columns);
        self.put(match references.matching {
            None => "",
            Some(ForeignKeyMatch::Full) => " MATCH FULL",
            Some(ForeignKeyMatch::Partial) => " MATCH PARTIAL",
            Some(ForeignKeyMatch::Simple) => " MATCH SIMPLE",
        });
        let actions =
            [(" ON DELETE ", references.on_delete), (" ON UPDATE ", references.on_update)];
        for (word, action) in actions {
            if let Some(action) = action {
                self.put(word);
                self.put(match action {
                    ReferentialAction::Restrict => "RESTRICT",
                    ReferentialAction::Cascade => "CASCADE",
                    ReferentialAction::SetNull => "SET NULL",
                    ReferentialAction::NoAction => "NO ACTION",
                    ReferentialAction::SetDefault => "SET DEFAULT",
                });
            }
        }
    }

    fn table_option(&mut self, option: &TableOption) {
        match option {
            TableOption::Engine(name) => {
                self.put("ENGINE=");
                self.ident(name);
            }
            TableOption::SecondaryEngine(None) => self.put("SECONDARY_ENGINE=NULL"),
            TableOption::SecondaryEngine(Some(name)) => {
                self.put("SECONDARY_ENGINE=");
                self.ident(name);
            }
            TableOption::AutoIncrement(value) => self.put(&format!("AUTO_INCREMENT={value}")),
            TableOption::Charset(charset) => {
                self.put("DEFAULT CHARSET=");
                self.charset(charset);
            }
            TableOption::Collate(collation) => {
                self.put("COLLATE=");
                self.collation(collation);
            }
            TableOption::Comment(text) => {
                self.put("COMMENT=");
                self.text(text);
            }
            TableOption::RowFormat(format) => self.put(&format!("ROW_FORMAT={format}")),
            TableOption::Union(tables) => {
                self.put("UNION=(");
                self.object_names(tables);
                self.put(")");
            }
            TableOption::Tablespace(name) => {
                self.put("TABLESPACE ");
                self.ident(name);
            }
            TableOption::Storage(kind) => self.put(&format!("STORAGE {kind}")),
            TableOption::Number { name, value } => {
                self.put(name);
                self.put("=");
                match value {
                    Some(value) => self.number(value),
                    None => self.put("DEFAULT"),
                }
            }
            TableOption::Text { name, value } => {
                self.put(name);
                self.put("=");
                match &**name {
                    "insert_method" => self.put(value),
                    _ => self.text(value),
                }
            }
        }
    }

    fn partitioning(&mut self, partitioning: &Partitioning) {
        self.put("PARTITION BY ");
        self.partition_method(&partitioning.method);
        if let Some(count) = partitioning.count {
            self.put(&format!(" PARTITIONS {count}"));
        }
        if let Some(method) = &partitioning.subpartition {
            self.put(" SUBPARTITION BY ");
            self.partition_method(method);
        }
        if let Some(count) = partitioning.subpartition_count {
            self.put(&format!(" SUBPARTITIONS {count}"));
        }
        if !partitioning.partitions.is_empty() {
            self.put(" ");
            self.partitions(&partitioning.partitions);
        }
    }

    fn partition_method(&mut self, method: &PartitionMethod) {
        let (word, expr) = match method {
            PartitionMethod::Hash { linear, expr } => {
                (if *linear { "LINEAR HASH (" } else { "HASH (" }, expr)
            }
            PartitionMethod::Range(expr) => ("RANGE (", expr),
            PartitionMethod::List(expr) => ("LIST (", expr),
            PartitionMethod::Key { linear, algorithm, columns } => {
                self.put(if *linear { "LINEAR KEY " } else { "KEY " });
                if let Some(algorithm) = algorithm {
                    self.put(&format!("ALGORITHM = {algorithm} "));
                }
                return self.ident_list(columns);
            }
            PartitionMethod::RangeColumns(columns) => {
                self.put("RANGE COLUMNS");
                return self.ident_list(columns);
            }
            PartitionMethod::ListColumns(columns) => {
                self.put("LIST COLUMNS");
                return self.ident_list(columns);
            }
        };
        self.put(word);
        self.expr(expr);
        self.put(")");
    }

    fn partitions(&mut self, partitions: &[PartitionDefinition]) {
        self.put("(");
        self.list(partitions, ", ", |printer, partition| {
            printer.put("PARTITION ");
            printer.ident(&partition.name);
            if let Some(values) = &partition.values {
                printer.partition_values(values);
            }
            printer.spaced_options(&partition.options);
            if !partition.subpartitions.is_empty() {
                printer.put(" (");
                printer.list(&partition.subpartitions, ", ", |printer, subpartition| {
                    printer.put("SUBPARTITION ");
                    printer.ident(&subpartition.name);
                    printer.spaced_options(&subpartition.options);
                });
                printer.put(")");
            }
        });
        self.put(")");
    }

    fn spaced_options(&mut self, options: &[TableOption]) {
        for option in options {
            self.put(" ");
            self.table_option(option);
        }
    }

    fn partition_values(&mut self, values: &PartitionValues) {
        match values {
            PartitionValues::LessThan(bounds) => {
                self.put(" VALUES LESS THAN (");
                self.list(bounds, ",", |printer, bound| match bound {
                    Some(bound) => printer.expr(bound),
                    None => printer.put("MAXVALUE"),
                });
            }
            PartitionValues::In(rows) => {
                self.put(" VALUES IN (");
                self.list(rows, ",", |printer, row| match &row[..] {
                    [value] => printer.expr(value),
                    row => {
                        printer.put("(");
                        printer.exprs(row);
                        printer.put(")");
                    }
                });
            }
        }
        self.put(")");
    }

    pub(super) fn drop_table(&mut self, drop: &DropTable) {
        self.put("DROP ");
        self.put_if(drop.temporary, "TEMPORARY ");
        self.put("TABLE ");
        self.put_if(drop.if_exists, "IF EXISTS ");
        self.object_names(&drop.tables);
    }

    pub(super) fn create_index(&mut self, create: &CreateIndex) {
        self.put("CREATE ");
        self.put(match create.index.kind {
            IndexKind::Unique => "UNIQUE ",
            IndexKind::Fulltext => "FULLTEXT ",
            IndexKind::Spatial => "SPATIAL ",
            IndexKind::Plain | IndexKind::Primary => "",
        });
        self.put("INDEX ");
        if let Some(name) = &create.index.name {
            self.ident(name);
        }
        self.put(" ON ");
        self.object_name(&create.table);
        self.put(" ");
        self.index_parts(&create.index.parts);
        self.index_options(&create.index.options);
        self.algorithm_and_lock(create.algorithm, create.lock, " ");
    }

    pub(super) fn drop_index(&mut self, drop: &DropIndex) {
        self.put("DROP INDEX ");
        self.ident(&drop.name);
        self.put(" ON ");
        self.object_name(&drop.table);
        self.algorithm_and_lock(drop.algorithm, drop.lock, " ");
    }

    /// Each with the separator before it.
    fn algorithm_and_lock(
        &mut self,
        algorithm: Option<AlterAlgorithm>,
        lock: Option<AlterLock>,
        separator: &str,
    ) {
        if let Some(algorithm) = algorithm {
            self.put(separator);
            self.put(match algorithm {
                AlterAlgorithm::Default => "ALGORITHM=DEFAULT",
                AlterAlgorithm::Instant => "ALGORITHM=INSTANT",
                AlterAlgorithm::Inplace => "ALGORITHM=INPLACE",
                AlterAlgorithm::Copy => "ALGORITHM=COPY",
            });
        }
        if let Some(lock) = lock {
            self.put(separator);
            self.put(match lock {
                AlterLock::Default => "LOCK=DEFAULT",
                AlterLock::None => "LOCK=NONE",
                AlterLock::Shared => "LOCK=SHARED",
                AlterLock::Exclusive => "LOCK=EXCLUSIVE",
            });
        }
    }

    pub(super) fn alter_table(&mut self, alter: &AlterTable) {
        self.put("ALTER TABLE ");
        self.object_name(&alter.table);
        let start = self.out.len();
        self.algorithm_and_lock(alter.algorithm, alter.lock, ", ");
        match alter.validation {
            Some(true) => self.put(", WITH VALIDATION"),
            Some(false) => self.put(", WITHOUT VALIDATION"),
            None => {}
        }
        for action in &alter.actions {
            // Before PARTITION BY there is no comma.
            let bare = matches!(action, AlterAction::Partitioning(_));
            self.put(if bare { " " } else { ", " });
            self.alter_action(action);
        }
        // The first has no comma either.
        if self.out[start..].starts_with(", ") {
            self.out.remove(start);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one line or two for each kind of action")]
    fn alter_action(&mut self, action: &AlterAction) {
        match action {
            AlterAction::AddColumn(column, position) => {
                self.put("ADD COLUMN ");
                self.column_definition(column);
                self.column_position(position.as_ref());
            }
            AlterAction::AddConstraint(constraint) => {
                self.put("ADD ");
                self.table_constraint(constraint);
            }
            AlterAction::ChangeColumn(old, column, position) => {
                self.put("CHANGE COLUMN ");
                self.ident(old);
                self.put(" ");
                self.column_definition(column);
                self.column_position(position.as_ref());
            }
            AlterAction::ModifyColumn(column, position) => {
                self.put("MODIFY COLUMN ");
                self.column_definition(column);
                self.column_position(position.as_ref());
            }
            AlterAction::RenameColumn(old, new) => self.renamed("RENAME COLUMN ", old, new),
            AlterAction::RenameIndex(old, new) => self.renamed("RENAME INDEX ", old, new),
            AlterAction::AlterColumnDefault(name, default) => {
                self.named("ALTER COLUMN ", name);
                match default {
                    Some(default) => {
                        self.put(" SET DEFAULT ");
                        self.column_default(default);
                    }
                    None => self.put(" DROP DEFAULT"),
                }
            }
            AlterAction::AlterColumnVisibility(name, visible) => {
                self.named("ALTER COLUMN ", name);
                self.put(if *visible { " SET VISIBLE" } else { " SET INVISIBLE" });
            }
            AlterAction::DropColumn(name) => self.named("DROP COLUMN ", name),
            AlterAction::DropPrimaryKey => self.put("DROP PRIMARY KEY"),
            AlterAction::DropIndex(name) => self.named("DROP INDEX ", name),
            AlterAction::DropForeignKey(name) => self.named("DROP FOREIGN KEY ", name),
            AlterAction::DropCheck(name) => self.named("DROP CHECK ", name),
            AlterAction::DropConstraint(name) => self.named("DROP CONSTRAINT ", name),
            AlterAction::AlterCheck(name, enforced) => {
                self.named("ALTER CHECK ", name);
                self.put(if *enforced { " ENFORCED" } else { " NOT ENFORCED" });
            }
            AlterAction::AlterIndexVisibility(name, visible) => {
                self.named("ALTER INDEX ", name);
                self.visibility(Some(*visible));
            }
            AlterAction::RenameTable(name) => {
                self.put("RENAME TO ");
                self.object_name(name);
            }
            AlterAction::Option(option) => self.table_option(option),
            AlterAction::ConvertCharset(charset, collation) => {
                self.put("CONVERT TO CHARACTER SET ");
                self.charset(charset);
                if let Some(collation) = collation {
                    self.put(" COLLATE ");
                    self.collation(collation);
                }
            }
            AlterAction::OrderBy(items) => {
                self.put("ORDER BY ");
                self.list(items, ",", |printer, item| {
                    printer.expr(&item.expr);
                    printer.put_if(item.descending, " DESC");
                });
            }
            AlterAction::Force => self.put("FORCE"),
            AlterAction::EnableKeys(true) => self.put("ENABLE KEYS"),
            AlterAction::EnableKeys(false) => self.put("DISABLE KEYS"),
            AlterAction::Tablespace { import: true } => self.put("IMPORT TABLESPACE"),
            AlterAction::Tablespace { import: false } => self.put("DISCARD TABLESPACE"),
            AlterAction::SecondaryLoad(true) => self.put("SECONDARY_LOAD"),
            AlterAction::SecondaryLoad(false) => self.put("SECONDARY_UNLOAD"),
            AlterAction::Partitioning(None) => self.put("REMOVE PARTITIONING"),
            AlterAction::Partitioning(Some(partitioning)) => self.partitioning(partitioning),
            AlterAction::AddPartitions(partitions) => {
                self.put("ADD PARTITION ");
                self.partitions(partitions);
            }
            AlterAction::AddPartitionCount(count) => {
                self.put(&format!("ADD PARTITION PARTITIONS {count}"));
            }
            AlterAction::DropPartitions(names) => {
                self.put("DROP PARTITION ");
                self.idents(names);
            }
            AlterAction::CoalescePartitions(count) => {
                self.put(&format!("COALESCE PARTITION {count}"));
            }
            AlterAction::ReorganizePartitions(names, partitions) => {
                self.put("REORGANIZE PARTITION");
                if !names.is_empty() {
                    self.put(" ");
                    self.idents(names);
                    self.put(" INTO ");
                    self.partitions(partitions);
                }
            }
            AlterAction::ExchangePartition(name, table) => {
                self.named("EXCHANGE PARTITION ", name);
                self.put(" WITH TABLE ");
                self.object_name(table);
            }
            AlterAction::TruncatePartitions(choice) => {
                self.put("TRUNCATE PARTITION ");
                self.partition_choice(choice);
            }
            AlterAction::MaintainPartitions { operation, partitions } => {
                self.put(operation);
                self.put(" PARTITION ");
                self.partition_choice(partitions);
                self.put_if(matches!(&**operation, "DISCARD" | "IMPORT"), " TABLESPACE");
            }
        }
    }

    fn named(&mut self, words: &str, name: &Ident) {
        self.put(words);
        self.ident(name);
    }

    fn renamed(&mut self, words: &str, old: &Ident, new: &Ident) {
        self.named(words, old);
        self.named(" TO ", new);
    }

    fn column_position(&mut self, position: Option<&ColumnPosition>) {
        match position {
            None => {}
            Some(ColumnPosition::First) => self.put(" FIRST"),
            Some(ColumnPosition::After(name)) => self.named(" AFTER ", name),
        }
    }

    fn partition_choice(&mut self, choice: &PartitionChoice) {
        match choice {
            PartitionChoice::All => self.put("ALL"),
            PartitionChoice::Names(names) => self.idents(names),
        }
    }
}
