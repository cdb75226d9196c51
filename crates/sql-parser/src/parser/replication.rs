//! CHANGE REPLICATION SOURCE, CHANGE REPLICATION FILTER, START, STOP and RESET REPLICA, also in
//! the words of before 8.0.22.

use super::{Parser, Result};
use crate::ast::{
    ChangeFilter, ChangeSource, FilterRule, ReplicaAction, ReplicaCommand, SourceOption,
    SourceValue, Statement,
};
use crate::keyword::Keyword as K;
use crate::lexer::Kind;

impl Parser<'_> {
    /// At CHANGE, before REPLICATION or MASTER.
    pub(super) fn change_replication(&mut self) -> Result<Statement> {
        self.advance();
        if self.eat_word(K::Replication) {
            if self.eat_word(K::Filter) {
                let rules = self.list(Self::filter_rule)?;
                let channel = self.channel()?;
                let change = ChangeFilter { rules, channel };
                return Ok(Statement::ChangeFilter(Box::new(change)));
            }
            self.expect_word(K::Source)?;
        } else {
            self.expect_word(K::Master)?;
        }
        self.expect_word(K::To)?;
        let options = self.list(Self::source_option)?;
        let channel = self.channel()?;
        Ok(Statement::ChangeSource(Box::new(ChangeSource { options, channel })))
    }

    /// At START, STOP or RESET, before REPLICA or the word of before.
    pub(super) fn replica_command(&mut self) -> Result<Statement> {
        let mut action = match self.token.keyword {
            K::Start => ReplicaAction::Start,
            K::Stop => ReplicaAction::Stop,
            _ => ReplicaAction::Reset,
        };
        self.advance();
        self.advance();
        if action == ReplicaAction::Reset && self.eat_word(K::All) {
            action = ReplicaAction::ResetAll;
        }
        let ends = matches!(self.token.kind, Kind::End | Kind::Semicolon);
        if !ends && !self.at_word(K::For) {
            // Threads, UNTIL, an account of this start only.
            return match action {
                ReplicaAction::Start => Ok(self.unsupported("START REPLICA with options")),
                ReplicaAction::Stop => Ok(self.unsupported("STOP REPLICA with options")),
                _ => Err(self.error()),
            };
        }
        let channel = self.channel()?;
        Ok(Statement::Replica(ReplicaCommand { action, channel }))
    }

    fn source_option(&mut self) -> Result<SourceOption> {
        let name = self.option_name()?;
        self.expect(Kind::Equal)?;
        let value = match self.token.kind {
            Kind::String => SourceValue::Text(self.string()?),
            Kind::Integer | Kind::Decimal | Kind::Float => {
                let digits = String::from_utf8_lossy(self.bytes(self.token)).into_owned();
                self.advance();
                SourceValue::Number(digits.into())
            }
            Kind::Open => {
                self.advance();
                let numbers =
                    if self.at(Kind::Close) { Vec::new() } else { self.list(Self::number)? };
                self.expect(Kind::Close)?;
                SourceValue::Numbers(numbers)
            }
            _ if self.at_word(K::Null) => {
                self.advance();
                SourceValue::Word(crate::ast::Ident::new("NULL"))
            }
            _ => SourceValue::Word(self.ident()?),
        };
        Ok(SourceOption { name: name.into(), value })
    }

    /// The name of an option, some of which are reserved words.
    fn option_name(&mut self) -> Result<String> {
        let is_reserved =
            [K::MasterBind, K::MasterSslVerifyServerCert].contains(&self.token.keyword);
        let name = if is_reserved {
            let text = String::from_utf8_lossy(self.bytes(self.token)).into_owned();
            self.advance();
            text
        } else {
            self.ident()?.as_str().to_owned()
        };
        Ok(name.to_ascii_uppercase().replace("MASTER", "SOURCE"))
    }

    fn filter_rule(&mut self) -> Result<FilterRule> {
        let word = self.token.keyword;
        self.advance();
        self.expect(Kind::Equal)?;
        self.expect(Kind::Open)?;
        let is_empty = self.at(Kind::Close);
        let rule = match word {
            K::ReplicateDoDb => FilterRule::DoDatabases(self.unless(is_empty, Self::ident)?),
            K::ReplicateIgnoreDb => {
                FilterRule::IgnoreDatabases(self.unless(is_empty, Self::ident)?)
            }
            K::ReplicateDoTable => FilterRule::DoTables(self.unless(is_empty, Self::object_name)?),
            K::ReplicateIgnoreTable => {
                FilterRule::IgnoreTables(self.unless(is_empty, Self::object_name)?)
            }
            K::ReplicateWildDoTable => FilterRule::DoPatterns(self.unless(is_empty, Self::string)?),
            K::ReplicateWildIgnoreTable => {
                FilterRule::IgnorePatterns(self.unless(is_empty, Self::string)?)
            }
            K::ReplicateRewriteDb => {
                let pair = |parser: &mut Self| {
                    parser.expect(Kind::Open)?;
                    let from = parser.ident()?;
                    parser.expect(Kind::Comma)?;
                    let to = parser.ident()?;
                    parser.expect(Kind::Close)?;
                    Ok((from, to))
                };
                FilterRule::RewriteDatabases(self.unless(is_empty, pair)?)
            }
            _ => return Err(self.error_before()),
        };
        self.expect(Kind::Close)?;
        Ok(rule)
    }

    fn unless<T>(
        &mut self,
        is_empty: bool,
        element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        if is_empty { Ok(Vec::new()) } else { self.list(element) }
    }
}
