//! Reads the binary log: epochs of a change stream as events.
//!
//! # Owns
//! What each change is as events, and where each event lies in its file.
//! # Guarantees
//! Who reads a file from its beginning gets the same bytes as everybody else, whichever replicas
//! the changes come from.
//!
//! An epoch is a transaction, or one for each server that its changes come from, with that server's
//! `server_id`. Statements that have changed definitions in it are transactions of
//! their own before it; rows of tables that are gone by them come before them.
//! # Limits
//! An epoch is in memory while it is given, as changes and as events.
//! # Not here
//! Epochs and what their tables were (`binlog::epochs`), whom events are given to (`binlog`).

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use model::{Epoch, Table, TableId};
use mysql_wire::binlog::{self, Stamp, Statement, gtid, kind};
use sql_expression::SqlError;
use wire::RowChange;

use super::epochs::{Changed, Contents, EpochReader, OneEpoch, ReadError, Step};
use super::origin::{Origins, Run, transactions};
use super::place::{Log, file_name, file_of, numbers_above};
use super::table::{Net, Parts, Shape, Unreadable};
use crate::definition_log::LoggedStatement;
use crate::kernel::Kernel;
use crate::variables::VERSION;

/// Collations of statements: one that every replica knows.
const UTF8MB4_GENERAL_CI: u16 = 45;
/// Options of `sql_mode` that statements are executed under: the printed form needs none.
const PLAIN_SQL_MODE: u64 = 0;

/// What the changes of a row by one origin come to, with the number of its table.
type OfTable = (usize, Net);

/// Events that belong together.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The file that they are in.
    pub(crate) file: u64,
    /// Where the first one begins.
    pub(crate) begins: u64,
    /// The number of their GTID; none of what is no transaction.
    pub(crate) number: Option<u64>,
    /// With headers and checksums.
    pub(crate) events: Vec<Vec<u8>>,
}

/// Reads the log from the beginning of a file on.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Log,
    epochs: EpochReader,
    shapes: BTreeMap<(TableId, u32), Rc<Shape>>,
    file: u64,
    position: u64,
    /// Transactions of the file so far.
    transactions: u64,
    pieces: VecDeque<Piece>,
    /// The epoch whose end is looked for, and where that is.
    wanted: Option<Epoch>,
    found: Option<End>,
}

/// Where the log ends, or an epoch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The file.
    pub(crate) file: u64,
    /// The position in it.
    pub(crate) position: u64,
    /// The number of the last transaction before.
    pub(crate) number: u64,
}

impl LogReader {
    /// A reader of a file that the log has. Nothing is asked for yet.
    pub(crate) fn new(kernel: &Kernel, log: &Log, file: u64) -> Result<Self, ReadError> {
        let first = log.first_of(file).ok_or(ReadError::Purged(log.begin))?;
        let delivered = Epoch(first.0.saturating_sub(1));
        let mut reader = Self {
            log: log.clone(),
            epochs: EpochReader::new(kernel, log.stream, delivered),
            shapes: BTreeMap::new(),
            file,
            position: 0,
            transactions: 0,
            pieces: VecDeque::new(),
            wanted: None,
            found: None,
        };
        reader.begin_file(file)?;
        Ok(reader)
    }

    /// All of the log up to this epoch has been read.
    pub(crate) fn through(&self) -> Epoch {
        self.epochs.through()
    }

    /// Where what has been read ends, pieces that were not taken among it.
    pub(crate) fn end(&self) -> End {
        End { file: self.file, position: self.position, number: self.last_number() }
    }

    /// The number of the last transaction so far, or of all before the file.
    fn last_number(&self) -> u64 {
        numbers_above(self.file) + self.transactions
    }

    /// Where an epoch ends that is not before the reader's file. What is before that is read and
    /// left out, but for what `take` takes.
    pub(crate) async fn find_end(
        mut self,
        epoch: Epoch,
        mut take: impl FnMut(Piece),
    ) -> Result<End, ReadError> {
        self.wanted = Some(epoch);
        loop {
            while let Some(piece) = self.take() {
                take(piece);
            }
            if let Some(found) = self.found {
                return Ok(found);
            }
            self.read().await?;
        }
    }

    /// What comes now is of this epoch, or a later one.
    fn reach(&mut self, epoch: Epoch) {
        if self.found.is_none() && self.wanted.is_some_and(|wanted| epoch > wanted) {
            self.found = Some(self.end());
        }
    }

    /// The next piece that has been read.
    pub(crate) fn take(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// Reads on; whether there was anything. Waits a little if not.
    pub(crate) async fn read(&mut self) -> Result<bool, ReadError> {
        let Some(delivered) = self.epochs.read().await? else { return Ok(false) };
        for one in &delivered.epochs {
            self.reach(one.epoch);
            self.go_to_file(file_of(one.epoch))?;
            let timestamp = u32::try_from(one.ended / 1_000_000).unwrap_or(0);
            self.epoch(one, timestamp).await?;
        }
        self.reach(delivered.through.next());
        self.go_to_file(file_of(delivered.through.next()))?;
        Ok(true)
    }

    /// All that is in an epoch.
    async fn epoch(&mut self, one: &OneEpoch, timestamp: u32) -> Result<(), ReadError> {
        let stamp = Stamp { timestamp, server: self.log.server };
        let Contents { parts, origins, steps } = self.epochs.contents(one).await?;
        for step in steps {
            match step {
                Step::Rows(tables) => self.rows(stamp, tables, (&origins, &parts))?,
                Step::Definitions { statement, is_lossy, .. } => {
                    if let Some(statement) = statement {
                        self.statement(stamp, &statement)?;
                    }
                    if is_lossy {
                        self.lost(stamp)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The changes of rows, in a transaction for each server that they come from.
    fn rows(
        &mut self,
        stamp: Stamp,
        tables: Vec<Changed<'_>>,
        of_epoch: (&Origins, &Parts),
    ) -> Result<(), ReadError> {
        let (origins, parts) = of_epoch;
        let mut shaped: Vec<(Rc<Shape>, Vec<&RowChange>)> = Vec::new();
        for (table, changes) in tables {
            shaped.push((self.shape(&table)?, changes));
        }
        shaped.sort_by(|(a, _), (b, _)| a.name().cmp(&b.name()).then(a.table.id.cmp(&b.table.id)));
        let mut runs: Vec<Run> = Vec::new();
        let mut nets: Vec<OfTable> = Vec::new();
        for (at, (shape, changes)) in shaped.iter().enumerate() {
            for of_row in shape.nets(changes.iter().copied(), origins)? {
                let row = nets.len();
                for (origin, net) in of_row {
                    // Without other origins all is one transaction.
                    if !origins.is_empty() {
                        runs.push(Run { row, origin, step: shape.step_of(&net) });
                    }
                    nets.push((at, net));
                }
            }
        }
        let mut by_transaction: BTreeMap<(u32, u32), Vec<OfTable>> = BTreeMap::new();
        if origins.is_empty() {
            by_transaction.insert((0, 0), nets);
        } else {
            for (place, net) in transactions(&runs).into_iter().zip(nets) {
                by_transaction.entry(place).or_default().push(net);
            }
        }
        for ((_, origin), nets) in by_transaction {
            let server = if origin == 0 { stamp.server } else { origin };
            let mut bodies: Vec<(u8, Vec<u8>)> = Vec::new();
            for of_table in nets.chunk_by(|(a, _), (b, _)| a == b) {
                let (shape, _) = &shaped[of_table[0].0];
                bodies.extend(shape.events(of_table.iter().map(|(_, net)| net), parts)?);
            }
            self.transaction(Stamp { server, ..stamp }, bodies)?;
        }
        Ok(())
    }

    /// A transaction with events of rows, if there are any.
    fn transaction(&mut self, stamp: Stamp, bodies: Vec<(u8, Vec<u8>)>) -> Result<(), ReadError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let number = self.begin_transaction(stamp, false)?;
        let begin = query(&LoggedStatement { text: "BEGIN".to_owned(), ..Default::default() });
        self.add(kind::QUERY, stamp, |out| out.extend(begin))?;
        for (kind, body) in bodies {
            self.add(kind, stamp, |out| out.extend(body))?;
        }
        self.add(kind::XID, stamp, |out| binlog::xid(out, number))
    }

    fn statement(&mut self, stamp: Stamp, statement: &LoggedStatement) -> Result<(), ReadError> {
        let stamp = match statement.origin {
            Some(origin) if !origin.is_logged => return Ok(()),
            Some(origin) => Stamp { server: origin.server, ..stamp },
            None => stamp,
        };
        self.begin_transaction(stamp, true)?;
        // NOW() is the time at which it began, as it was there.
        let began = u32::try_from(statement.at / 1_000_000).unwrap_or(0);
        let stamp = if began > 0 { Stamp { timestamp: began, ..stamp } } else { stamp };
        let body = query(statement);
        self.add(kind::QUERY, stamp, |out| out.extend(body))
    }

    /// Rows have come that the log does not have.
    fn lost(&mut self, stamp: Stamp) -> Result<(), ReadError> {
        self.begin_transaction(stamp, true)?;
        let message = "RESTORE has put rows into the cluster that are not in its binary log: \
                       make the replica anew from a dump";
        self.add(kind::INCIDENT, stamp, |out| binlog::incident(out, message))
    }

    /// Begins a piece with the GTID of the next transaction; its number.
    fn begin_transaction(&mut self, stamp: Stamp, by_statement: bool) -> Result<u64, ReadError> {
        self.transactions += 1;
        let (number, place) = (self.last_number(), self.transactions);
        self.begin_piece(Some(number));
        let uuid = self.log.uuid;
        self.add(kind::GTID, stamp, |out| {
            binlog::gtid_body(out, &uuid, number, place, by_statement);
        })?;
        Ok(number)
    }

    fn begin_piece(&mut self, number: Option<u64>) {
        let (file, begins) = (self.file, self.position);
        self.pieces.push_back(Piece { file, begins, number, events: Vec::new() });
    }

    /// Adds an event to the last piece.
    fn add(
        &mut self,
        kind: u8,
        stamp: Stamp,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), ReadError> {
        let event = binlog::event(kind, stamp, Some(self.position), 0, body);
        self.position += event.len() as u64;
        if self.position > u64::from(u32::MAX) {
            return Err(ReadError::TooLong);
        }
        if let Some(piece) = self.pieces.back_mut() {
            piece.events.push(event);
        }
        Ok(())
    }

    fn begin_file(&mut self, file: u64) -> Result<(), ReadError> {
        (self.file, self.position, self.transactions) = (file, binlog::MAGIC.len() as u64, 0);
        self.begin_piece(None);
        let stamp = Stamp { timestamp: 0, server: self.log.server };
        self.add(kind::FORMAT_DESCRIPTION, stamp, |out| binlog::format_description(out, VERSION))?;
        let uuid = self.log.uuid;
        self.add(kind::PREVIOUS_GTIDS, stamp, |out| {
            gtid::first_ones(out, &uuid, numbers_above(file));
        })
    }

    /// Ends files until the log has reached one.
    fn go_to_file(&mut self, file: u64) -> Result<(), ReadError> {
        while self.file < file {
            self.begin_piece(None);
            let stamp = Stamp { timestamp: 0, server: self.log.server };
            let (next, begin) = (file_name(self.file + 1), binlog::MAGIC.len() as u64);
            self.add(kind::ROTATE, stamp, |out| binlog::rotate(out, begin, &next))?;
            self.begin_file(self.file + 1)?;
        }
        Ok(())
    }

    /// A version of a table.
    fn shape(&mut self, table: &Arc<Table>) -> Result<Rc<Shape>, Unreadable> {
        if let Some(shape) = self.shapes.get(&(table.id, table.version)) {
            return Ok(shape.clone());
        }
        let unreadable = |error: SqlError| {
            let why = format!("is of a definition that cannot be read ({})", error.message());
            Unreadable::of(table, &why)
        };
        let shape = Rc::new(Shape::of(table, self.log.json_is_text).map_err(unreadable)?);
        self.shapes.insert((table.id, table.version), shape.clone());
        Ok(shape)
    }
}

/// The body of the event of a statement.
fn query(statement: &LoggedStatement) -> Vec<u8> {
    let mut body = Vec::new();
    let statement = Statement {
        database: &statement.database,
        text: &statement.text,
        sql_mode: PLAIN_SQL_MODE,
        collations: [UTF8MB4_GENERAL_CI; 3],
        ignores_foreign_keys: statement.ignores_foreign_keys,
        time_zone: &statement.time_zone,
        micros: (statement.at.max(0) % 1_000_000) as u32,
    };
    binlog::query(&mut body, &statement);
    body
}
