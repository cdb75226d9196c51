//! Generated queries against MariaDB, and against both executors of this server.
//!
//! # Owns
//! [`Servers`]: two servers with the same tables; what is compared of an answer; the report of what
//! differs, made as small as it can be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tests::mariadb::MariaDb;
use tests::{QueryError, Server, Session, TextRow};

use super::draw::Draw;
use super::expression::Expressions;
use super::query::Query;
use super::rules;
use super::tree::Tree;
use super::world;

/// What is compared of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kinds of the columns, the rows, the numbers of the warnings.
    Rows(Vec<char>, Vec<TextRow>, BTreeSet<u16>),
    /// The number of an error.
    Error(u16),
}

/// Both servers, with the same tables.
pub(super) struct Servers {
    mariadb: Session,
    /// MariaDB over tables without secondary keys, asked to rewrite nothing.
    plain: Session,
    /// With and without programs for the data nodes.
    nines: [Session; 2],
    _processes: (MariaDb, Server),
}

/// How a run went.
#[derive(Default)]
pub(super) struct Report {
    /// Differences that no rule explains.
    pub(super) differences: Vec<String>,
    /// How often each rule was needed, and queries that failed alike; the first of each.
    pub(super) counts: Counts,
}

/// How often something happened, and to which query first.
pub(super) type Counts = BTreeMap<String, (u32, String)>;

fn count(counts: &mut Counts, what: impl Into<String>, query: &str) {
    counts.entry(what.into()).or_insert_with(|| (0, query.to_owned())).0 += 1;
}

impl Servers {
    /// Starts both and fills the tables with what the seed draws.
    pub(super) fn start(seed: u64) -> Self {
        let processes = (MariaDb::start(), Server::start(&[]));
        let connect = |session: Result<Session, QueryError>| {
            session.unwrap_or_else(|error| panic!("a connection: {error}"))
        };
        let mut servers = Self {
            mariadb: connect(processes.0.session()),
            plain: connect(processes.0.session()),
            nines: [connect(processes.1.session()), connect(processes.1.session())],
            _processes: processes,
        };
        for setting in world::SETTINGS {
            servers.sessions().for_each(|session| must(session, setting));
        }
        for statement in world::script(&mut Draw::new(seed)) {
            must(&mut servers.mariadb, &statement);
            must(&mut servers.nines[0], &statement);
        }
        world::script_without_keys().iter().for_each(|one| must(&mut servers.plain, one));
        for session in [&mut servers.mariadb, &mut servers.plain] {
            world::SETTINGS_OF_MARIADB.iter().for_each(|one| must(session, one));
        }
        let of_plain = &world::SETTINGS_WITHOUT_REWRITING;
        of_plain.iter().for_each(|one| must(&mut servers.plain, one));
        must(&mut servers.nines[1], "USE wide");
        must(&mut servers.nines[1], "SET nines_pushdown = OFF");
        servers
    }

    fn sessions(&mut self) -> impl Iterator<Item = &mut Session> {
        [&mut self.mariadb, &mut self.plain].into_iter().chain(&mut self.nines)
    }

    /// Runs so many queries that the seed draws.
    pub(super) fn run(&mut self, seed: u64, queries: u32) -> Report {
        let mut report = Report::default();
        let mut expressions = Expressions::new(Draw::new(seed));
        for _ in 0..queries {
            let query = expressions.query();
            let text = query.tree.print();
            if self.compare(&query, &text, &mut report.counts).is_none() {
                continue;
            }
            let mut ignored = Counts::new();
            let mut still = |tree: &Tree| {
                let smaller = Query { tree: tree.clone(), ..query };
                self.compare(&smaller, &tree.print(), &mut ignored).is_some()
            };
            let small = query.tree.clone().shrink(&mut still, SHRINK_MAX).print();
            let difference = self.compare(&query, &small, &mut ignored).unwrap_or_default();
            report.differences.push(format!("{small}\n{difference}"));
        }
        report
    }

    /// How the answers to a query differ without a reason.
    fn compare(&mut self, query: &Query, text: &str, counts: &mut Counts) -> Option<String> {
        let ordered = query.ordered;
        let mariadb = outcome(&mut self.mariadb, text, ordered);
        let [on, off] = &mut self.nines;
        let (on, off) = (outcome(on, text, ordered), outcome(off, text, ordered));
        let (on, off) = comparable(on, off, query);
        let overflows = Outcome::Error(1690);
        if on != off && (on == overflows || off == overflows) {
            count(counts, rules::NOT_NEEDED, text);
            return None;
        }
        if on != off && rules::is_of_order(text, &on, &off) {
            count(counts, ORDER_OF_ROWS, text);
            return None;
        }
        if on != off {
            let shown = difference(&off, &on);
            return Some(format!("  pushdown off and on: {shown}"));
        }
        if let Outcome::Error(number) = on {
            count(counts, format!("error {number}"), text);
        }
        let (mariadb, on) = comparable(mariadb, on, query);
        if mariadb == on {
            return None;
        }
        for (question, why) in [(text, WITHOUT_KEYS), (&rules::shielded(text), SHIELDED)] {
            let plain = outcome(&mut self.plain, question, ordered);
            let (plain, nines) = comparable(plain, on.clone(), query);
            if plain == nines {
                count(counts, why, text);
                return None;
            }
        }
        let question = rules::spelled_out(text);
        if question != text {
            let other = outcome(&mut self.mariadb, &question, ordered);
            // What is never taken into the set may have had its warnings, here or there.
            let silent = Query { tree: query.tree.clone(), warns: false, ..*query };
            let (other, nines) = comparable(other, on.clone(), &silent);
            if other == nines {
                count(counts, SPELLED_OUT, text);
                return None;
            }
        }
        if let Some(reason) = rules::reason(text, &mariadb, &on) {
            count(counts, reason, text);
            return None;
        }
        Some(format!("  MariaDB and Nines: {}", difference(&mariadb, &on)))
    }
}

/// Reasons that need no knowledge of the matter: MariaDB has two answers to one question.
const WITHOUT_KEYS: &str = "MariaDB answers as Nines does when it has no keys and rewrites less";
const SHIELDED: &str = "MariaDB answers as Nines does when it cannot look into conditions";

/// The same, of a function that is not what it stands for.
const SPELLED_OUT: &str = "MariaDB answers as Nines does when MAKE_SET is spelled out";

/// Where floating-point numbers are put together in another order, their last digits differ.
const ORDER_OF_ROWS: &str = "digits of what data nodes and SQL nodes put together";

/// Steps that one difference may take to become small.
const SHRINK_MAX: u32 = 400;

fn must(session: &mut Session, statement: &str) {
    session.query(statement).unwrap_or_else(|error| panic!("{error}: {statement}"));
}

fn outcome(session: &mut Session, query: &str, ordered: bool) -> Outcome {
    let mut answer = match session.ask(query) {
        Ok(answer) => answer,
        Err(QueryError::Refused(number, _)) => return Outcome::Error(number),
        Err(error) => panic!("{error}: {query}"),
    };
    let mut warnings = BTreeSet::new();
    if answer.warnings > 0 {
        let all = session.query("SHOW WARNINGS").unwrap_or_else(|error| panic!("{error}: {query}"));
        let number = |row: &TextRow| row.get(1)?.as_deref()?.parse::<u16>().ok();
        warnings.extend(all.iter().filter_map(number));
    }
    if !ordered {
        answer.rows.sort();
    }
    let kinds = answer.columns.iter().map(|column| kind_of(column.kind)).collect();
    Outcome::Rows(kinds, answer.rows, warnings)
}

/// The kind of a type of the protocol: the servers choose different widths within one.
fn kind_of(number: u8) -> char {
    match number {
        0 | 1 | 2 | 3 | 8 | 9 | 13 | 16 | 4 | 5 | 246 => 'n',
        10 | 14 => 'a',
        7 | 12 | 17 | 18 => 'm',
        11 | 19 => 't',
        6 => '0',
        _ => 's',
    }
}

/// Both answers without what the servers need not say alike.
fn comparable(mut mariadb: Outcome, mut nines: Outcome, query: &Query) -> (Outcome, Outcome) {
    if let (Outcome::Rows(a, _, v), Outcome::Rows(b, _, w)) = (&mut mariadb, &mut nines) {
        // What is always NULL may have any type.
        for (one, other) in a.iter_mut().zip(b) {
            if *one == '0' || *other == '0' || query.mixed {
                (*one, *other) = ('0', '0');
            }
        }
        if query.warns {
            for numbers in [v, w] {
                let known = numbers.iter().filter_map(|one| rules::number_in_mysql(*one));
                *numbers = known.collect();
            }
        } else {
            v.clear();
            w.clear();
        }
    }
    (mariadb, nines)
}

/// The first thing that differs.
fn difference(left: &Outcome, right: &Outcome) -> String {
    let mut out = String::new();
    match (left, right) {
        (Outcome::Rows(a, rows, w), Outcome::Rows(b, other, v)) => {
            if rows != other {
                let at = rows.iter().zip(other).take_while(|(a, b)| a == b).count();
                let _ = write!(out, "{:?} and {:?}; ", rows.get(at), other.get(at));
            }
            if a != b {
                let _ = write!(out, "types {a:?} and {b:?}; ");
            }
            if w != v {
                let _ = write!(out, "warnings {w:?} and {v:?}");
            }
        }
        _ => {
            let short = |outcome: &Outcome| match outcome {
                Outcome::Error(number) => format!("error {number}"),
                Outcome::Rows(_, rows, _) => format!("{} rows", rows.len()),
            };
            let _ = write!(out, "{} and {}", short(left), short(right));
        }
    }
    out
}
