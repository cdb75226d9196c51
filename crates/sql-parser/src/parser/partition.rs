//! PARTITION BY and the definitions of partitions.

use super::{Parser, Result};
use crate::ast::{
    Expr, Ident, PartitionDefinition, PartitionMethod, PartitionValues, Partitioning,
    SubpartitionDefinition, TableOption,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At PARTITION BY.
    pub(super) fn partitioning(&mut self) -> Result<Partitioning> {
        self.expect_words(&[K::Partition, K::By])?;
        let method = self.partition_method()?;
        let mut partitioning = Partitioning {
            method,
            count: None,
            subpartition: None,
            subpartition_count: None,
            partitions: Vec::new(),
        };
        if self.eat_word(K::Partitions) {
            partitioning.count = Some(self.number()?);
        }
        if self.eat_word(K::Subpartition) {
            self.expect_word(K::By)?;
            let method = self.partition_method()?;
            if !matches!(method, PartitionMethod::Hash { .. } | PartitionMethod::Key { .. }) {
                return Err(self.error_before());
            }
            partitioning.subpartition = Some(method);
            if self.eat_word(K::Subpartitions) {
                partitioning.subpartition_count = Some(self.number()?);
            }
        }
        if self.at(Kind::Open) {
            partitioning.partitions = self.parenthesised_list(Self::partition_definition)?;
        }
        Ok(partitioning)
    }

    fn partition_method(&mut self) -> Result<PartitionMethod> {
        let linear = self.eat_word(K::Linear);
        match self.eat_any(&[K::Hash, K::Key, K::Range, K::List]) {
            Some(K::Hash) => Ok(PartitionMethod::Hash { linear, expr: self.parenthesised_expr()? }),
            Some(K::Key) => {
                let mut algorithm = None;
                if self.eat_word(K::Algorithm) {
                    self.expect(Kind::Equal)?;
                    algorithm = Some(self.number()?);
                }
                self.expect(Kind::Open)?;
                let empty = self.at(Kind::Close);
                let columns = if empty { Vec::new() } else { self.list(Self::ident)? };
                self.expect(Kind::Close)?;
                Ok(PartitionMethod::Key { linear, algorithm, columns })
            }
            Some(word) if !linear => {
                let is_range = word == K::Range;
                if self.eat_word(K::Columns) {
                    let columns = self.ident_list()?;
                    return Ok(if is_range {
                        PartitionMethod::RangeColumns(columns)
                    } else {
                        PartitionMethod::ListColumns(columns)
                    });
                }
                let expr = self.parenthesised_expr()?;
                Ok(if is_range {
                    PartitionMethod::Range(expr)
                } else {
                    PartitionMethod::List(expr)
                })
            }
            Some(_) => Err(self.error_before()),
            None => Err(self.error()),
        }
    }

    pub(super) fn partition_definition(&mut self) -> Result<PartitionDefinition> {
        self.expect_word(K::Partition)?;
        let name = self.ident()?;
        let values = if self.eat_word(K::Values) { Some(self.partition_values()?) } else { None };
        let options = self.partition_options()?;
        let mut subpartitions = Vec::new();
        if self.at(Kind::Open) {
            subpartitions = self.parenthesised_list(|parser| {
                parser.expect_word(K::Subpartition)?;
                let name: Ident = parser.ident_or_text()?;
                Ok(SubpartitionDefinition { name, options: parser.partition_options()? })
            })?;
        }
        Ok(PartitionDefinition { name, values, options, subpartitions })
    }

    fn partition_values(&mut self) -> Result<PartitionValues> {
        if self.eat_word(K::In) {
            let rows = self.parenthesised_list(|parser| match parser.expr()? {
                // A row is for several columns.
                Expr::Row(row) => Ok(row),
                value => Ok(vec![value]),
            })?;
            return Ok(PartitionValues::In(rows));
        }
        self.expect_words(&[K::Less, K::Than])?;
        if self.eat_word(K::Maxvalue) {
            return Ok(PartitionValues::LessThan(vec![None]));
        }
        let bounds = self.parenthesised_list(|parser| {
            if parser.eat_word(K::Maxvalue) { Ok(None) } else { parser.expr().map(Some) }
        })?;
        Ok(PartitionValues::LessThan(bounds))
    }

    fn partition_options(&mut self) -> Result<Vec<TableOption>> {
        let mut options = Vec::new();
        loop {
            // STORAGE ENGINE is ENGINE.
            if self.at_word(K::Storage) && self.peek().keyword == K::Engine {
                self.advance();
            }
            match self.token.keyword {
                K::Engine
                | K::Comment
                | K::MaxRows
                | K::MinRows
                | K::Data
                | K::Index
                | K::Tablespace
                | K::Nodegroup => match self.table_option()? {
                    Some(option) => options.push(option),
                    None => return Err(self.error()),
                },
                _ => return Ok(options),
            }
        }
    }
}
