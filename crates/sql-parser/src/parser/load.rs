//! LOAD DATA, and the description of files that it shares with INTO OUTFILE.

use super::{Parser, Result};
use crate::ast::{FileFormat, LoadColumn, LoadData, LoadDuplicates, LoadPriority, Statement};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At LOAD, before DATA or XML.
    pub(super) fn load_data(&mut self) -> Result<Statement> {
        self.advance();
        let xml = match self.eat_any(&[K::Data, K::Xml]) {
            Some(word) => word == K::Xml,
            None => return Err(self.error()),
        };
        let priority = match self.eat_any(&[K::LowPriority, K::Concurrent]) {
            Some(K::LowPriority) => Some(LoadPriority::Low),
            Some(_) => Some(LoadPriority::Concurrent),
            None => None,
        };
        let local = self.eat_word(K::Local);
        self.expect_word(K::Infile)?;
        let path = self.text()?;
        let duplicates = self.duplicates();
        self.expect_words(&[K::Into, K::Table])?;
        let table = self.object_name()?;
        let partitions = self.partition_list()?;
        let charset = if self.eat_charset()? { Some(self.charset_or_default()?) } else { None };
        let mut rows_identified = None;
        if xml && self.eat_words(&[K::Rows, K::Identified]) {
            self.expect_word(K::By)?;
            rows_identified = Some(self.string_or_bits()?);
        }
        let mut format = FileFormat::default();
        self.file_format(&mut format)?;
        let mut ignore_lines = 0;
        if self.eat_word(K::Ignore) {
            ignore_lines = self.number()?;
            if self.eat_any(&[K::Lines, K::Rows]).is_none() {
                return Err(self.error());
            }
        }
        let columns = self.load_columns()?;
        let assignments =
            if self.eat_word(K::Set) { self.list(Self::assignment)? } else { Vec::new() };
        Ok(Statement::LoadData(Box::new(LoadData {
            xml,
            local,
            priority,
            path,
            duplicates,
            table,
            partitions,
            charset,
            rows_identified,
            format,
            ignore_lines,
            columns,
            assignments,
        })))
    }

    /// REPLACE or IGNORE, if they are next.
    pub(super) fn duplicates(&mut self) -> Option<LoadDuplicates> {
        match self.eat_any(&[K::Replace, K::Ignore]) {
            Some(K::Replace) => Some(LoadDuplicates::Replace),
            Some(_) => Some(LoadDuplicates::Ignore),
            None => None,
        }
    }

    fn load_columns(&mut self) -> Result<Vec<LoadColumn>> {
        if !self.eat(Kind::Open) {
            return Ok(Vec::new());
        }
        let mut columns = Vec::new();
        if !self.at(Kind::Close) {
            columns = self.list(|parser| {
                if parser.at(Kind::Variable) {
                    parser.user_variable().map(LoadColumn::Variable)
                } else {
                    parser.column_ref().map(LoadColumn::Column)
                }
            })?;
        }
        self.expect(Kind::Close)?;
        Ok(columns)
    }

    /// FIELDS and LINES, if they are next.
    pub(super) fn file_format(&mut self, format: &mut FileFormat) -> Result<()> {
        if self.eat_any(&[K::Fields, K::Columns]).is_some() {
            let mut any = false;
            loop {
                if self.eat_word(K::Terminated) {
                    self.expect_word(K::By)?;
                    format.fields_terminated = Some(self.string_or_bits()?);
                } else if self.at_word(K::Optionally) || self.at_word(K::Enclosed) {
                    format.optionally_enclosed = self.eat_word(K::Optionally);
                    self.expect_words(&[K::Enclosed, K::By])?;
                    format.fields_enclosed = Some(self.string_or_bits()?);
                } else if self.eat_word(K::Escaped) {
                    self.expect_word(K::By)?;
                    format.fields_escaped = Some(self.string_or_bits()?);
                } else if any {
                    break;
                } else {
                    return Err(self.error());
                }
                any = true;
            }
        }
        if self.at_word(K::Lines) {
            self.advance();
            let mut any = false;
            loop {
                if self.eat_word(K::Terminated) {
                    self.expect_word(K::By)?;
                    format.lines_terminated = Some(self.string_or_bits()?);
                } else if self.eat_word(K::Starting) {
                    self.expect_word(K::By)?;
                    format.lines_starting = Some(self.string_or_bits()?);
                } else if any {
                    break;
                } else {
                    return Err(self.error());
                }
                any = true;
            }
        }
        Ok(())
    }
}
