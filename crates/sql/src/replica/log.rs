//! The log of a source, event by event: what each means, and where a transaction ends.
//!
//! # Guarantees
//! An event that is not known, and that may not be left out, ends the channel with an error that
//! names it. So does one that is damaged.
//! # Not here
//! Rows (`apply`), statements (`statement`).

use mysql_wire::binlog::event::{self, Head, foreign};
use mysql_wire::binlog::image::{self, Rows};
use mysql_wire::binlog::{kind, rows};
use sql_expression::SqlError;

use super::statement::Fate;
use super::{Applier, End};
use crate::definition_log::ChangeOrigin;

/// A transaction of the source.
#[derive(Debug, Default)]
pub(super) enum Group {
    /// None has begun.
    #[default]
    None,
    /// Its GTID has come, and nothing that it does.
    Named(Name),
    /// It has begun, and something has to end it.
    Open(Name),
}

/// What is known of a transaction.
#[derive(Clone, Debug, Default)]
pub(super) struct Name {
    gtid: Gtid,
    /// It was made here, or where nothing is taken from: it is passed over.
    is_foreign: bool,
    /// Parts of it that have come.
    parts: u64,
    /// Rows of it were made in the transaction that is open here.
    has_rows: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Gtid {
    #[default]
    None,
    Mysql([u8; 16], u64),
    Mariadb(u32, u32, u64),
}

impl Group {
    /// Whether a transaction of the source has come in part.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The number of its GTID.
    pub(super) fn number(&self) -> Option<u64> {
        match self {
            Self::Named(name) | Self::Open(name) => match name.gtid {
                Gtid::Mysql(_, number) | Gtid::Mariadb(_, _, number) => Some(number),
                Gtid::None => None,
            },
            Self::None => None,
        }
    }

    fn name(&mut self) -> Option<&mut Name> {
        match self {
            Self::None => None,
            Self::Named(name) | Self::Open(name) => Some(name),
        }
    }
}

fn broken(text: impl Into<String>) -> End {
    End::Stopped(SqlError::new(13_121, "HY000", text.into()))
}

fn malformed<E>(_: E) -> End {
    // What was damaged on its way comes whole the next time.
    End::Lost { code: 1_236, why: "an event of the source is damaged".to_owned(), is_final: false }
}

impl Applier {
    /// Makes an event.
    pub(super) async fn event(&mut self, bytes: &[u8]) -> Result<(), End> {
        let (head, body) = event::read(bytes, self.format).map_err(malformed)?;
        let is_placed = head.end != 0
            && !matches!(
                head.kind,
                kind::FORMAT_DESCRIPTION | kind::HEARTBEAT | foreign::HEARTBEAT_V2 | kind::ROTATE
            );
        if is_placed {
            self.at.end = head.end.into();
        }
        match head.kind {
            kind::FORMAT_DESCRIPTION => {
                self.format = event::description(body).map_err(malformed)?.format;
            }
            kind::ROTATE => self.rotated(body)?,
            kind::HEARTBEAT | foreign::HEARTBEAT_V2 => {}
            kind::GTID => {
                let gtid = event::gtid(body).map_err(malformed)?;
                let is_done = self.settings.auto_position
                    && self.gtids.has(&gtid.server, gtid.number)
                    && !self.numbers_have_gaps;
                self.begin(&head, Gtid::Mysql(gtid.server, gtid.number), is_done)?;
            }
            foreign::ANONYMOUS_GTID => self.begin(&head, Gtid::None, false)?,
            foreign::MARIADB_GTID => {
                let gtid = event::mariadb_gtid(body).map_err(malformed)?;
                self.begin(&head, Gtid::Mariadb(gtid.domain, head.server, gtid.number), false)?;
                if !gtid.is_standalone {
                    // It stands for BEGIN too.
                    self.open(&head);
                }
            }
            kind::QUERY => self.query(&head, body).await?,
            kind::XID => self.end(),
            kind::TABLE_MAP => {
                let map = image::table_map(body).map_err(|_| {
                    broken("a table of the source cannot be read: it has a type that is not known")
                })?;
                self.tables.insert(map.id, map);
            }
            kind::INCIDENT => {
                let message = event::incident(body).unwrap_or_default();
                let text =
                    format!("The incident LOST_EVENTS occurred on the source. Message: {message}");
                return Err(End::Stopped(SqlError::new(1590, "HY000", text)));
            }
            foreign::STOP
            | kind::PREVIOUS_GTIDS
            | foreign::IGNORABLE
            | foreign::ROWS_QUERY
            | foreign::TRANSACTION_CONTEXT
            | foreign::VIEW_CHANGE
            | foreign::MARIADB_ANNOTATE_ROWS
            | foreign::MARIADB_BINLOG_CHECKPOINT
            | foreign::MARIADB_GTID_LIST => {}
            other => match image::rows_kind(other) {
                Some((kind, is_second)) => {
                    let rows = Rows::read(body, kind, is_second).map_err(malformed)?;
                    self.rows_event(&head, rows, kind).await?;
                }
                None => self.unknown(&head)?,
            },
        }
        Ok(())
    }

    fn unknown(&self, head: &Head) -> Result<(), End> {
        let why = match head.kind {
            foreign::INTVAR | foreign::RAND | foreign::USER_VAR => {
                "a variable of a statement: the source needs binlog_format = ROW"
            }
            foreign::APPEND_BLOCK
            | foreign::DELETE_FILE
            | foreign::BEGIN_LOAD_QUERY
            | foreign::EXECUTE_LOAD_QUERY => {
                "a file of LOAD DATA: the source needs binlog_format = ROW"
            }
            foreign::XA_PREPARE => "a prepared XA transaction",
            foreign::PARTIAL_UPDATE_ROWS => {
                "parts of JSON values: the source needs binlog_row_value_options = ''"
            }
            foreign::TRANSACTION_PAYLOAD => {
                "a compressed transaction: the source needs \
                 binlog_transaction_compression = OFF"
            }
            foreign::GTID_TAGGED => "a GTID with a tag",
            foreign::MARIADB_START_ENCRYPTION => "encryption of the log",
            foreign::MARIADB_QUERY_COMPRESSED => {
                "a compressed statement: the source needs log_bin_compress = OFF"
            }
            kind if foreign::MARIADB_ROWS_COMPRESSED.contains(&kind) => {
                "compressed rows: the source needs log_bin_compress = OFF"
            }
            _ if head.may_be_ignored() => return Ok(()),
            _ => "something that is not known",
        };
        Err(broken(format!(
            "an event of type {} of the source cannot be followed, as it is {why}; source log {}, \
             end_log_pos {}",
            head.kind, self.at.file, self.at.end
        )))
    }

    /// The log goes on in another file.
    fn rotated(&mut self, body: &[u8]) -> Result<(), End> {
        let (file, position) = event::rotated(body).map_err(malformed)?;
        self.at.file.clone_from(&file);
        self.at.end = position;
        let is_same = self.place.file == file && self.place.position >= position;
        if !self.group.is_open() && !is_same {
            self.place.file = file;
            self.place.position = position;
            self.began.get_or_insert(self.session.kernel.now());
        }
        Ok(())
    }

    /// Whether changes of a server are passed over.
    fn passes_over(&self, server: u32) -> bool {
        server == self.own_server || self.settings.ignored_servers.contains(&server)
    }

    /// A transaction begins, with its name.
    fn begin(&mut self, head: &Head, gtid: Gtid, is_done: bool) -> Result<(), End> {
        if matches!(self.group, Group::Open(_)) {
            return Err(broken("a transaction of the source begins within another one"));
        }
        let is_foreign = is_done || self.passes_over(head.server);
        self.group = Group::Named(Name { gtid, is_foreign, ..Name::default() });
        self.conflict_number = 0;
        self.note_time(head);
        Ok(())
    }

    /// The same is to be ended by something.
    fn open(&mut self, head: &Head) {
        let name = match std::mem::take(&mut self.group) {
            Group::Named(name) | Group::Open(name) => name,
            Group::None => Name { is_foreign: self.passes_over(head.server), ..Name::default() },
        };
        self.group = Group::Open(name);
        self.note_time(head);
    }

    fn note_time(&mut self, head: &Head) {
        if head.timestamp > 0 {
            self.status.behind_since = head.timestamp.into();
        }
    }

    /// A transaction has ended: its place is behind it.
    fn end(&mut self) {
        let name = match std::mem::take(&mut self.group) {
            Group::None => return,
            Group::Named(name) | Group::Open(name) => name,
        };
        match name.gtid {
            Gtid::None => {}
            Gtid::Mysql(server, number) => self.gtids.add(server, number, self.numbers_have_gaps),
            Gtid::Mariadb(domain, server, number) => self.gtids.reach(domain, server, number),
        }
        self.place.file.clone_from(&self.at.file);
        self.place.position = self.at.end;
        (self.place.parts, self.place.is_trying) = (0, false);
        self.tables.clear();
        self.transactions += 1;
        self.began.get_or_insert(self.session.kernel.now());
    }

    async fn query(&mut self, head: &Head, body: &[u8]) -> Result<(), End> {
        let said = event::statement(body).map_err(malformed)?;
        let text = String::from_utf8_lossy(&said.text).trim().to_ascii_uppercase();
        match text.as_str() {
            "BEGIN" => {
                self.open(head);
                return Ok(());
            }
            "COMMIT" => {
                self.end();
                return Ok(());
            }
            "ROLLBACK" => {
                let has_rows = self.group.name().is_some_and(|name| name.has_rows);
                if has_rows {
                    return Err(broken(
                        "the source has rolled a transaction back after it changed a table without \
                         transactions, which cannot be followed",
                    ));
                }
                self.end();
                return Ok(());
            }
            _ => {}
        }
        if text.starts_with("XA ") {
            return Err(broken("XA transactions of a source cannot be followed"));
        }
        self.statement(head, &said).await
    }

    /// A statement that is no bound of a transaction.
    async fn statement(&mut self, head: &Head, said: &event::ReadStatement) -> Result<(), End> {
        let is_within = matches!(self.group, Group::Open(_));
        if !self.group.is_open() {
            let is_foreign = self.passes_over(head.server);
            self.group = Group::Named(Name { is_foreign, ..Name::default() });
        }
        self.note_time(head);
        let Some(name) = self.group.name() else { return Ok(()) };
        if name.is_foreign {
            if !is_within {
                self.end();
            }
            return Ok(());
        }
        let part = name.parts;
        name.parts += 1;
        let meant = self.meant(said)?;
        let is_done = part < self.place.parts;
        match &meant.fate {
            Fate::Left => self.status.skipped_statements += 1,
            Fate::Refused(why) => {
                return Err(broken(format!(
                    "{why}; source log {}, end_log_pos {}",
                    self.at.file, self.at.end
                )));
            }
            Fate::Runs if is_done => {}
            Fate::Runs => {
                self.come_from(head, part).await?;
                // What was made before is a part of its own.
                let was_trying = self.place.is_trying && part == self.place.parts;
                (self.place.parts, self.place.is_trying) = (part, true);
                self.commit().await?;
                self.session.change_origin = self.place.origin;
                let run = self.run_statement(&meant, said).await;
                match run {
                    Err(error) if was_trying && super::statement::says_done(&error) => {}
                    other => other?,
                }
                self.session.rollback().await;
                (self.place.parts, self.place.is_trying) = (part + 1, false);
                if is_within || meant.is_followed_by_rows {
                    self.commit().await?;
                }
                if let Some(name) = self.group.name() {
                    name.has_rows = false;
                }
            }
        }
        if meant.is_followed_by_rows {
            self.open(head);
        } else if !is_within {
            self.end();
            self.commit().await?;
        }
        Ok(())
    }

    /// Changes come from the server of an event. Those of one origin are made in a transaction, so
    /// what was made of another one is committed before: as a whole, or as parts of the transaction
    /// that is read.
    async fn come_from(&mut self, head: &Head, part: u64) -> Result<(), End> {
        let server = if head.server == 0 { self.facts.server_id } else { head.server };
        let origin = Some(ChangeOrigin { server, is_logged: self.is_logged });
        if self.place.origin == origin {
            return Ok(());
        }
        if self.rows > 0 {
            if self.group.name().is_some_and(|name| name.has_rows) {
                self.place.parts = part;
            }
            self.commit().await?;
        }
        self.place.origin = origin;
        Ok(())
    }

    async fn rows_event(
        &mut self,
        head: &Head,
        rows: Rows<'_>,
        kind: image::RowsKind,
    ) -> Result<(), End> {
        let ends = rows.flags & rows::STATEMENT_ENDS != 0;
        if !self.group.is_open() {
            return Err(broken("rows of the source are in no transaction"));
        }
        let Some(name) = self.group.name() else { return Ok(()) };
        let part = name.parts;
        name.parts += 1;
        // MySQL ends a statement also with an event of no table.
        let is_of_nothing = rows.table == 0xFF_FFFF;
        let is_foreign = name.is_foreign || self.passes_over(head.server);
        let is_passed = is_foreign || is_of_nothing || part < self.place.parts;
        if !is_passed {
            self.come_from(head, part).await?;
            if let Some(name) = self.group.name() {
                name.has_rows = true;
            }
            let Some(map) = self.tables.remove(&rows.table) else {
                return Err(broken(format!(
                    "rows of a table {} that the source has not described",
                    rows.table
                )));
            };
            self.began.get_or_insert(self.session.kernel.now());
            let applied = self.apply_rows(&map, rows, kind).await;
            self.tables.insert(map.id, map);
            applied?;
        }
        if ends {
            self.tables.clear();
        }
        self.note_time(head);
        Ok(())
    }
}
