//! Optimizer hints, `/*+ … */`.
//!
//! # Owns
//! The grammar of hints, and which query block has which number.
//! # Guarantees
//! Nothing in a comment is an error of the statement: hints end where something does not fit.
//! # Limits
//! A string with `*/` in it does not fit, as it could not be printed. Of a statement's misfits only
//! the first few are complained of.

use super::Parser;
use crate::ast::{Complaints, Hint, HintArgument, HintTable, HintValue, HintedBlock, Hints, Ident};
use crate::error::ParseError;
use crate::lexer::literal::unquote;
use crate::lexer::{Kind, Lexer, SqlMode, Token, is_space};

/// What the parentheses of a hint hold.
#[derive(Clone, Copy)]
enum Form {
    /// `[@block] [table, …]`.
    Tables,
    /// `[@block] table [index, …]`.
    Indexes,
    /// `[@block]`.
    Block,
    /// `[@block] [strategy, …]`.
    Strategies(&'static [&'static str]),
    /// `[@block] strategy`.
    Strategy(&'static [&'static str]),
    /// `name`.
    Name,
    /// `milliseconds`.
    Time,
    /// `variable = value`.
    Assignment,
}

/// Most complaints about the hints of a statement: each looks at the text before it.
const COMPLAINTS_MAX: usize = 32;

const SEMIJOINS: &[&str] = &["DUPSWEEDOUT", "FIRSTMATCH", "LOOSESCAN", "MATERIALIZATION"];
const SUBQUERIES: &[&str] = &["INTOEXISTS", "MATERIALIZATION"];

const HINTS: &[(&str, Form)] = &[
    ("BKA", Form::Tables),
    ("BNL", Form::Tables),
    ("DERIVED_CONDITION_PUSHDOWN", Form::Tables),
    ("GROUP_INDEX", Form::Indexes),
    ("HASH_JOIN", Form::Tables),
    ("INDEX", Form::Indexes),
    ("INDEX_MERGE", Form::Indexes),
    ("JOIN_FIXED_ORDER", Form::Block),
    ("JOIN_INDEX", Form::Indexes),
    ("JOIN_ORDER", Form::Tables),
    ("JOIN_PREFIX", Form::Tables),
    ("JOIN_SUFFIX", Form::Tables),
    ("MAX_EXECUTION_TIME", Form::Time),
    ("MERGE", Form::Tables),
    ("MRR", Form::Indexes),
    ("NO_BKA", Form::Tables),
    ("NO_BNL", Form::Tables),
    ("NO_DERIVED_CONDITION_PUSHDOWN", Form::Tables),
    ("NO_GROUP_INDEX", Form::Indexes),
    ("NO_HASH_JOIN", Form::Tables),
    ("NO_ICP", Form::Indexes),
    ("NO_INDEX", Form::Indexes),
    ("NO_INDEX_MERGE", Form::Indexes),
    ("NO_JOIN_INDEX", Form::Indexes),
    ("NO_MERGE", Form::Tables),
    ("NO_MRR", Form::Indexes),
    ("NO_ORDER_INDEX", Form::Indexes),
    ("NO_RANGE_OPTIMIZATION", Form::Indexes),
    ("NO_SEMIJOIN", Form::Strategies(SEMIJOINS)),
    ("NO_SKIP_SCAN", Form::Indexes),
    ("ORDER_INDEX", Form::Indexes),
    ("QB_NAME", Form::Name),
    ("RESOURCE_GROUP", Form::Name),
    ("SEMIJOIN", Form::Strategies(SEMIJOINS)),
    ("SET_VAR", Form::Assignment),
    ("SKIP_SCAN", Form::Indexes),
    ("SUBQUERY", Form::Strategy(SUBQUERIES)),
];

impl Parser<'_> {
    /// The number of a query block that begins here.
    pub(super) fn next_block(&mut self) -> u32 {
        self.reserved.take().unwrap_or_else(|| {
            self.blocks += 1;
            self.blocks
        })
    }

    /// The hints behind the word in hand, the SELECT of a block or the first word of a change.
    pub(super) fn hints(&mut self, block: u32, is_select: bool) -> Option<Box<Hints>> {
        let behind = self.token.end as usize;
        let rest = &self.sql[behind..];
        let space = rest.iter().take_while(|byte| is_space(**byte)).count();
        let text = rest[space..].strip_prefix(b"/*+")?;
        let len = text.windows(2).position(|pair| pair == b"*/")?;
        let start = behind + space + 3;
        let known = self.hinted.iter().map(|block| block.hints.complaints.0.len()).sum::<usize>();
        let (end, most) = (start + len, COMPLAINTS_MAX - known);
        let hints = HintParser::new(self.sql, start, end, self.mode, most).all();
        self.hinted.push(HintedBlock { block, is_select, hints: hints.clone() });
        // What nothing was understood of prints as nothing.
        (!hints.list.is_empty()).then(|| Box::new(hints))
    }

    /// The same of a change, whose tables are those of the first block.
    pub(super) fn hints_of_change(&mut self) -> Option<Box<Hints>> {
        self.hints(1, false)
    }
}

/// The token in hand does not fit.
struct Misfit;

struct HintParser<'a> {
    sql: &'a [u8],
    /// Where the comment's text ends.
    end: usize,
    mode: SqlMode,
    lexer: Lexer<'a>,
    token: Token,
    complaints: Vec<ParseError>,
    complaints_max: usize,
}

impl<'a> HintParser<'a> {
    fn new(sql: &'a [u8], start: usize, end: usize, mode: SqlMode, complaints_max: usize) -> Self {
        let mut lexer = Lexer::new(&sql[..end], start, mode);
        let token = lexer.next();
        Self { sql, end, mode, lexer, token, complaints: Vec::new(), complaints_max }
    }

    fn all(mut self) -> Hints {
        let mut list = Vec::new();
        while self.token.kind != Kind::End {
            match self.hint() {
                Ok(hint) => list.extend(hint),
                Err(Misfit) => {
                    self.complain("Optimizer hint syntax error");
                    break;
                }
            }
        }
        Hints { list, complaints: Complaints(self.complaints) }
    }

    fn complain(&mut self, complaint: &str) {
        if self.complaints.len() == self.complaints_max {
            return;
        }
        let at = self.token.start as usize;
        // At its end only the end of the comment is told.
        let text = if self.token.kind == Kind::End { &self.sql[..self.end + 2] } else { self.sql };
        self.complaints.push(ParseError::near(complaint, text, at));
    }

    /// A hint; none if its value is not one that it can have.
    fn hint(&mut self) -> Result<Option<Hint>, Misfit> {
        let word = self.word().ok_or(Misfit)?;
        let known = HINTS.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
        let (name, form) = *known.ok_or(Misfit)?;
        self.advance();
        self.expect(Kind::Open)?;
        let has_block = !matches!(form, Form::Name | Form::Time | Form::Assignment);
        let block = if has_block { self.optional_block()? } else { None };
        let argument = match form {
            Form::Tables => HintArgument::Tables(self.tables(block.is_some())?),
            Form::Indexes => {
                let table = self.table(block.is_some())?;
                HintArgument::Indexes(table, self.list(Self::name)?)
            }
            Form::Block => HintArgument::Tables(Vec::new()),
            Form::Strategies(known) => {
                HintArgument::Strategies(self.list(|parser| parser.one_of(known))?)
            }
            Form::Strategy(known) => HintArgument::Strategies(vec![self.one_of(known)?]),
            Form::Name => HintArgument::Name(self.name()?),
            Form::Time => match self.time()? {
                Some(time) => HintArgument::Time(time),
                None => {
                    self.complain("Unsupported MAX_EXECUTION_TIME");
                    self.expect(Kind::Close)?;
                    return Ok(None);
                }
            },
            Form::Assignment => {
                let variable = self.name()?;
                self.expect(Kind::Equal)?;
                HintArgument::Assignment(variable, self.value()?)
            }
        };
        self.expect(Kind::Close)?;
        Ok(Some(Hint { name, block, argument }))
    }

    fn advance(&mut self) {
        self.token = self.lexer.next();
    }

    fn expect(&mut self, kind: Kind) -> Result<(), Misfit> {
        if self.token.kind != kind {
            return Err(Misfit);
        }
        self.advance();
        Ok(())
    }

    fn bytes(&self) -> &'a [u8] {
        &self.sql[self.token.start as usize..self.token.end as usize]
    }

    /// The word in hand, if it is one without quotes.
    fn word(&self) -> Option<&'a [u8]> {
        matches!(self.token.kind, Kind::Word | Kind::Introducer).then(|| self.bytes())
    }

    fn tables(&mut self, in_block: bool) -> Result<Vec<HintTable>, Misfit> {
        self.list(|parser| parser.table(in_block))
    }

    /// What stands up to the closing parenthesis, commas between.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Misfit>,
    ) -> Result<Vec<T>, Misfit> {
        let mut items = Vec::new();
        if self.token.kind == Kind::Close {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.token.kind != Kind::Comma {
                return Ok(items);
            }
            self.advance();
        }
    }

    /// `table` or, where no block has been named, `table@block`.
    fn table(&mut self, in_block: bool) -> Result<HintTable, Misfit> {
        let name = self.name()?;
        let block = if in_block { None } else { self.optional_block()? };
        Ok(HintTable { name, block })
    }

    /// `@block`.
    fn optional_block(&mut self) -> Result<Option<Ident>, Misfit> {
        if self.token.kind != Kind::Variable {
            return Ok(None);
        }
        let bytes = &self.bytes()[1..];
        let name = match bytes.first() {
            Some(b'`') => self.unquoted(bytes)?,
            Some(b'"') if self.mode.ansi_quotes => self.unquoted(bytes)?,
            Some(b'"' | b'\'') | None => return Err(Misfit),
            Some(_) if bytes.contains(&b'.') => return Err(Misfit),
            Some(_) => text_of(bytes)?,
        };
        self.advance();
        Ok(Some(Ident::new(name)))
    }

    fn name(&mut self) -> Result<Ident, Misfit> {
        let name = match self.token.kind {
            Kind::Quoted => self.unquoted(self.bytes())?,
            _ => text_of(self.word().ok_or(Misfit)?)?,
        };
        self.advance();
        Ok(Ident::new(name))
    }

    /// A name in quotes, without them.
    fn unquoted(&self, bytes: &[u8]) -> Result<Box<str>, Misfit> {
        let mut name = Vec::new();
        unquote(bytes, false, &mut name);
        let name = text_of(&name)?;
        if name.is_empty() { Err(Misfit) } else { Ok(name) }
    }

    fn one_of(&mut self, known: &[&'static str]) -> Result<&'static str, Misfit> {
        let word = self.word().ok_or(Misfit)?;
        let found = known.iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        let found = found.ok_or(Misfit)?;
        self.advance();
        Ok(found)
    }

    /// Milliseconds; none if they are too many.
    fn time(&mut self) -> Result<Option<u32>, Misfit> {
        if self.token.kind != Kind::Integer {
            return Err(Misfit);
        }
        let time = text_of(self.bytes())?.parse().ok();
        self.advance();
        Ok(time)
    }

    fn value(&mut self) -> Result<HintValue, Misfit> {
        let bytes = self.bytes();
        let value = match self.token.kind {
            Kind::Integer | Kind::Decimal | Kind::Float => HintValue::Number(text_of(bytes)?),
            Kind::Word if is_sized(bytes) => HintValue::Number(text_of(bytes)?),
            Kind::String => {
                let mut text = Vec::new();
                unquote(bytes, !self.mode.no_backslash_escapes, &mut text);
                let text = text_of(&text)?;
                if text.contains("*/") {
                    return Err(Misfit);
                }
                HintValue::Text(text)
            }
            _ => return self.name().map(HintValue::Name),
        };
        self.advance();
        Ok(value)
    }
}

/// `16K`, `2M`, `1G`.
fn is_sized(word: &[u8]) -> bool {
    match word.split_last() {
        Some((last, digits)) => {
            b"KMGkmg".contains(last) && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
        None => false,
    }
}

fn text_of(bytes: &[u8]) -> Result<Box<str>, Misfit> {
    std::str::from_utf8(bytes).map(Into::into).map_err(|_| Misfit)
}

#[cfg(test)]
mod tests {
    use crate::ast::Statement;
    use crate::{Parsed, SqlMode, parse_at};

    fn parsed(sql: &str) -> Parsed {
        parse_at(sql.as_bytes(), 0, SqlMode::default()).unwrap()
    }

    /// The statement as printed, and what was wrong with its hints.
    fn read(sql: &str) -> (String, Vec<String>) {
        let Parsed { statement, hints, .. } = parsed(sql);
        let complaints = hints.iter().flat_map(|block| &block.hints.complaints.0);
        (statement.to_string(), complaints.map(|error| error.message().to_owned()).collect())
    }

    #[test]
    fn hints_are_printed_in_one_form() {
        for (sql, expected) in [
            ("SELECT /*+bka( t1 ,t2@q)*/ 1", "select /*+ BKA(`t1`, `t2`@`q`) */ 1"),
            (
                "SELECT /*+ NO_INDEX(@q t k, PRIMARY) */ 1",
                "select /*+ NO_INDEX(@`q` `t` `k`, `PRIMARY`) */ 1",
            ),
            (
                "SELECT /*+ SET_VAR(a=on)SET_VAR(b=2M) */ 1",
                "select /*+ SET_VAR(`a` = `on`) SET_VAR(`b` = 2M) */ 1",
            ),
            ("SELECT /*+ JOIN_FIXED_ORDER(@q) */ 1", "select /*+ JOIN_FIXED_ORDER(@`q` ) */ 1"),
            (
                "SELECT /*+ SEMIJOIN(@q firstmatch) */ 1",
                "select /*+ SEMIJOIN(@`q` FIRSTMATCH) */ 1",
            ),
            ("SELECT /*+ */ 1", "select 1"),
            ("SELECT /* x */ /*+ BKA(t) */ 1", "select 1"),
        ] {
            assert_eq!(read(sql), (expected.to_owned(), Vec::new()), "{sql}");
        }
    }

    #[test]
    fn hints_end_where_something_does_not_fit() {
        for (hints, kept, near) in [
            ("BKA(t) BOGUS */ 1", " /*+ BKA(`t`) */", "BOGUS */ 1"),
            ("BKA(t), BKA(u) */ 1", " /*+ BKA(`t`) */", ", BKA(u) */ 1"),
            ("QB_NAME() */ 1", "", ") */ 1"),
            ("QB_NAME(``) */ 1", "", "``) */ 1"),
            ("BKA MRR(t) */ 1", "", "MRR(t) */ 1"),
            ("BKA */ 1", "", "*/"),
            ("BKA(t */ 1", "", "*/"),
            ("MAX_EXECUTION_TIME(-1) */ 1", "", "-1) */ 1"),
            ("MAX_EXECUTION_TIME(1.5) */ 1", "", "1.5) */ 1"),
            ("BKA(@'q' t) */ 1", "", "@'q' t) */ 1"),
            ("BKA(t, ) */ 1", "", ") */ 1"),
            ("SUBQUERY() */ 1", "", ") */ 1"),
            ("SET_VAR(a = '*\\/') */ 1", "", "'*\\/') */ 1"),
            ("123 */ 1", "", "123 */ 1"),
        ] {
            let sql = format!("SELECT /*+ {hints}");
            let complaint = format!("Optimizer hint syntax error near '{near}' at line 1");
            assert_eq!(read(&sql), (format!("select{kept} 1"), vec![complaint]), "{sql}");
        }
        let (printed, complaints) = read("SELECT /*+ MAX_EXECUTION_TIME(4294967296)\nMRR() */ 1");
        assert_eq!(printed, "select 1");
        assert_eq!(
            complaints,
            [
                "Unsupported MAX_EXECUTION_TIME near ')\nMRR() */ 1' at line 1",
                "Optimizer hint syntax error near ') */ 1' at line 2"
            ]
        );
    }

    #[test]
    fn blocks_have_numbers() {
        let sql = "WITH w AS (SELECT /*+ QB_NAME(w) */ 1) SELECT /*+ QB_NAME(q) */ \
                   (SELECT /*+ QB_NAME(s) */ 2) FROM (SELECT 3) t UNION SELECT /*+ QB_NAME(u) */ 1";
        let blocks: Vec<u32> = parsed(sql).hints.iter().map(|block| block.block).collect();
        assert_eq!(blocks, [2, 1, 3, 5]);
        let sql = "UPDATE /*+ BKA(t) */ t SET a = (SELECT /*+ BKA(t) */ 1)";
        let blocks: Vec<(u32, bool)> =
            parsed(sql).hints.iter().map(|block| (block.block, block.is_select)).collect();
        assert_eq!(blocks, [(1, false), (2, true)]);
        assert!(matches!(
            parsed("INSERT /*+ BKA(t) */ INTO t SELECT 1").statement,
            Statement::Insert(_)
        ));
    }
}
