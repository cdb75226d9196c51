//! ALTER TABLE and RENAME TABLE.

use super::{Parser, Result};
use crate::ast::{
    AlterAction, AlterTable, ColumnPosition, Ident, ObjectName, PartitionChoice, Statement,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// After ALTER, at TABLE.
    pub(super) fn alter_table(&mut self) -> Result<Statement> {
        self.advance();
        let table = self.object_name()?;
        let (algorithm, lock, validation) = (None, None, None);
        let mut alter = AlterTable { table, actions: Vec::new(), algorithm, lock, validation };
        if !self.at_partitioning() && !self.at(Kind::End) && !self.at(Kind::Semicolon) {
            while self.alter_element(&mut alter)? {}
        }
        // What sets or removes partitioning stands alone or last, without a comma before it.
        let of_partitions = alter.actions.last().is_some_and(is_of_partitions);
        if self.at_partitioning() && !of_partitions {
            let partitioning = if self.eat_word(K::Remove) {
                self.expect_word(K::Partitioning)?;
                None
            } else {
                Some(Box::new(self.partitioning()?))
            };
            alter.actions.push(AlterAction::Partitioning(partitioning));
        }
        Ok(Statement::AlterTable(Box::new(alter)))
    }

    fn at_partitioning(&self) -> bool {
        matches!(self.token.keyword, K::Partition | K::Remove)
    }

    /// One element, and whether another follows: behind a comma or, of table options, without one.
    fn alter_element(&mut self, alter: &mut AlterTable) -> Result<bool> {
        let others = alter.actions.len();
        self.alter_modifier_or_action(alter)?;
        if self.eat(Kind::Comma) {
            return Ok(true);
        }
        let is_option = matches!(alter.actions[others..], [AlterAction::Option(_)]);
        Ok(is_option && self.at_table_option())
    }

    fn alter_modifier_or_action(&mut self, alter: &mut AlterTable) -> Result<()> {
        if let Some(algorithm) = self.alter_algorithm()? {
            alter.algorithm = Some(algorithm);
            return Ok(());
        }
        if let Some(lock) = self.alter_lock()? {
            alter.lock = Some(lock);
            return Ok(());
        }
        if let Some(word) = self.eat_any(&[K::With, K::Without]) {
            self.expect_word(K::Validation)?;
            alter.validation = Some(word == K::With);
            return Ok(());
        }
        if self.at_word(K::Add) {
            return self.alter_add(&mut alter.actions);
        }
        let action = self.alter_action()?;
        alter.actions.push(action);
        Ok(())
    }

    fn alter_action(&mut self) -> Result<AlterAction> {
        let word = self.token.keyword;
        let partition_follows = self.peek().keyword == K::Partition;
        match word {
            K::Change => {
                self.advance();
                self.eat_word(K::Column);
                let old = self.ident()?;
                let column = Box::new(self.column_definition()?);
                Ok(AlterAction::ChangeColumn(old, column, self.column_position()?))
            }
            K::Modify => {
                self.advance();
                self.eat_word(K::Column);
                let column = Box::new(self.column_definition()?);
                Ok(AlterAction::ModifyColumn(column, self.column_position()?))
            }
            K::Drop => self.alter_drop(),
            K::Alter => self.alter_alter(),
            K::Rename => self.alter_rename(),
            K::Convert => {
                self.advance();
                self.expect_word(K::To)?;
                if !self.eat_charset()? {
                    return Err(self.error());
                }
                let charset = self.charset_or_default()?;
                let collation =
                    if self.eat_word(K::Collate) { Some(self.collation_name()?) } else { None };
                Ok(AlterAction::ConvertCharset(charset, collation))
            }
            K::Order => Ok(AlterAction::OrderBy(self.order_by()?)),
            K::Force => {
                self.advance();
                Ok(AlterAction::Force)
            }
            K::Enable | K::Disable => {
                self.advance();
                self.expect_word(K::Keys)?;
                Ok(AlterAction::EnableKeys(word == K::Enable))
            }
            K::Discard | K::Import if !partition_follows => {
                self.advance();
                self.expect_word(K::Tablespace)?;
                Ok(AlterAction::Tablespace { import: word == K::Import })
            }
            K::SecondaryLoad | K::SecondaryUnload => {
                self.advance();
                Ok(AlterAction::SecondaryLoad(word == K::SecondaryLoad))
            }
            K::Coalesce | K::Reorganize | K::Exchange | K::Truncate => self.alter_partitions(word),
            K::Analyze
            | K::Check
            | K::Optimize
            | K::Rebuild
            | K::Repair
            | K::Discard
            | K::Import => self.maintain_partitions(word),
            _ => match self.table_option()? {
                Some(option) => Ok(AlterAction::Option(option)),
                None => Err(self.error()),
            },
        }
    }

    /// At ADD: columns, constraints, partitions.
    fn alter_add(&mut self, actions: &mut Vec<AlterAction>) -> Result<()> {
        self.advance();
        if self.eat_word(K::Partition) {
            self.eat_word(K::NoWriteToBinlog);
            if self.eat_word(K::Partitions) {
                actions.push(AlterAction::AddPartitionCount(self.number()?));
            } else {
                let partitions = self.parenthesised_list(Self::partition_definition)?;
                actions.push(AlterAction::AddPartitions(partitions));
            }
            return Ok(());
        }
        if self.at_table_constraint() {
            actions.push(AlterAction::AddConstraint(self.table_constraint()?));
            return Ok(());
        }
        self.eat_word(K::Column);
        if !self.at(Kind::Open) {
            let column = Box::new(self.column_definition()?);
            actions.push(AlterAction::AddColumn(column, self.column_position()?));
            return Ok(());
        }
        self.advance();
        self.list(|parser| {
            let action = if parser.at_table_constraint() {
                AlterAction::AddConstraint(parser.table_constraint()?)
            } else {
                AlterAction::AddColumn(Box::new(parser.column_definition()?), None)
            };
            actions.push(action);
            Ok(())
        })?;
        self.expect(Kind::Close)
    }

    fn column_position(&mut self) -> Result<Option<ColumnPosition>> {
        if self.eat_word(K::First) {
            return Ok(Some(ColumnPosition::First));
        }
        if self.eat_word(K::After) {
            Ok(Some(ColumnPosition::After(self.ident()?)))
        } else {
            Ok(None)
        }
    }

    fn alter_drop(&mut self) -> Result<AlterAction> {
        self.advance();
        let word = self.token.keyword;
        match word {
            K::Primary => {
                self.advance();
                self.expect_word(K::Key)?;
                return Ok(AlterAction::DropPrimaryKey);
            }
            K::Index | K::Key => {
                self.advance();
                let name =
                    if self.at_word(K::Primary) { self.take_ident()? } else { self.ident()? };
                return Ok(AlterAction::DropIndex(name));
            }
            K::Foreign => {
                self.advance();
                self.expect_word(K::Key)?;
                return self.ident().map(AlterAction::DropForeignKey);
            }
            K::Check => {
                self.advance();
                return self.ident().map(AlterAction::DropCheck);
            }
            K::Constraint => {
                self.advance();
                return self.ident().map(AlterAction::DropConstraint);
            }
            K::Partition => {
                self.advance();
                return self.list(Self::ident).map(AlterAction::DropPartitions);
            }
            K::Column => self.advance(),
            _ => {}
        }
        let column = self.ident()?;
        self.eat_any(&[K::Restrict, K::Cascade]);
        Ok(AlterAction::DropColumn(column))
    }

    /// ALTER inside ALTER TABLE: of a column, an index, a check.
    fn alter_alter(&mut self) -> Result<AlterAction> {
        self.advance();
        if self.eat_word(K::Index) {
            let name = self.ident()?;
            return Ok(AlterAction::AlterIndexVisibility(name, self.visibility()?));
        }
        if self.eat_any(&[K::Check, K::Constraint]).is_some() {
            let name = self.ident()?;
            return match self.enforced() {
                Some(enforced) => Ok(AlterAction::AlterCheck(name, enforced)),
                None => Err(self.error()),
            };
        }
        self.eat_word(K::Column);
        let name = self.ident()?;
        if self.eat_word(K::Drop) {
            self.expect_word(K::Default)?;
            return Ok(AlterAction::AlterColumnDefault(name, None));
        }
        self.expect_word(K::Set)?;
        if self.eat_word(K::Default) {
            let default = self.column_default()?;
            return Ok(AlterAction::AlterColumnDefault(name, Some(default)));
        }
        Ok(AlterAction::AlterColumnVisibility(name, self.visibility()?))
    }

    fn visibility(&mut self) -> Result<bool> {
        match self.eat_any(&[K::Visible, K::Invisible]) {
            Some(word) => Ok(word == K::Visible),
            None => Err(self.error()),
        }
    }

    fn alter_rename(&mut self) -> Result<AlterAction> {
        self.advance();
        if self.eat_word(K::Column) {
            let (old, new) = self.renamed_pair()?;
            return Ok(AlterAction::RenameColumn(old, new));
        }
        if self.eat_any(&[K::Index, K::Key]).is_some() {
            let (old, new) = self.renamed_pair()?;
            return Ok(AlterAction::RenameIndex(old, new));
        }
        if self.eat_any(&[K::To, K::As]).is_none() {
            self.eat(Kind::Equal);
        }
        Ok(AlterAction::RenameTable(self.object_name()?))
    }

    fn renamed_pair(&mut self) -> Result<(Ident, Ident)> {
        let old = self.ident()?;
        self.expect_word(K::To)?;
        Ok((old, self.ident()?))
    }

    fn alter_partitions(&mut self, word: K) -> Result<AlterAction> {
        self.advance();
        self.expect_word(K::Partition)?;
        match word {
            K::Coalesce => {
                self.eat_word(K::NoWriteToBinlog);
                Ok(AlterAction::CoalescePartitions(self.number()?))
            }
            K::Reorganize => {
                self.eat_word(K::NoWriteToBinlog);
                if self.at(Kind::End) || self.at(Kind::Semicolon) {
                    return Ok(AlterAction::ReorganizePartitions(Vec::new(), Vec::new()));
                }
                let names = self.list(Self::ident)?;
                self.expect_word(K::Into)?;
                let partitions = self.parenthesised_list(Self::partition_definition)?;
                Ok(AlterAction::ReorganizePartitions(names, partitions))
            }
            K::Exchange => {
                let name = self.ident()?;
                self.expect_words(&[K::With, K::Table])?;
                Ok(AlterAction::ExchangePartition(name, self.object_name()?))
            }
            _ => Ok(AlterAction::TruncatePartitions(self.partition_choice()?)),
        }
    }

    fn maintain_partitions(&mut self, word: K) -> Result<AlterAction> {
        self.advance();
        self.expect_word(K::Partition)?;
        self.eat_any(&[K::NoWriteToBinlog, K::Local]);
        let partitions = self.partition_choice()?;
        if matches!(word, K::Discard | K::Import) {
            self.expect_word(K::Tablespace)?;
        }
        while matches!(word, K::Check | K::Repair)
            && let Some(_) =
                self.eat_any(&[K::Quick, K::Fast, K::Medium, K::Extended, K::Changed, K::UseFrm])
        {
        }
        Ok(AlterAction::MaintainPartitions { operation: word.text().into(), partitions })
    }

    fn partition_choice(&mut self) -> Result<PartitionChoice> {
        if self.eat_word(K::All) {
            Ok(PartitionChoice::All)
        } else {
            self.list(Self::ident).map(PartitionChoice::Names)
        }
    }

    /// After RENAME, at TABLE.
    pub(super) fn rename_table(&mut self) -> Result<Statement> {
        self.advance();
        let pairs = self.list(|parser| -> Result<(ObjectName, ObjectName)> {
            let old = parser.object_name()?;
            parser.expect_word(K::To)?;
            Ok((old, parser.object_name()?))
        })?;
        Ok(Statement::RenameTable(pairs))
    }
}

/// Whether an action is about single partitions, behind which no partitioning comes.
fn is_of_partitions(action: &AlterAction) -> bool {
    matches!(
        action,
        AlterAction::AddPartitions(_)
            | AlterAction::AddPartitionCount(_)
            | AlterAction::DropPartitions(_)
            | AlterAction::CoalescePartitions(_)
            | AlterAction::ReorganizePartitions(..)
            | AlterAction::ExchangePartition(..)
            | AlterAction::TruncatePartitions(_)
            | AlterAction::MaintainPartitions { .. }
    )
}
