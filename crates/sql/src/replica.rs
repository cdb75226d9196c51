//! Who applies the replication channels of the cluster: follows the binary log of a MySQL or
//! MariaDB server, or of another cluster, and makes its changes here.
//!
//! Walk-through: `docs/internals/streams.md`; why it is so:
//! `docs/decisions/0078-following-a-source.md`.
//!
//! # Owns
//! The task that looks for channels without an applier; an applier, from its claim to its end.
//! # Guarantees
//! 1. A transaction of the source is made here in one transaction, together with others at most,
//!    and the place behind it is written in the same. So an applier may die at any moment, and its
//!    successor goes on behind the last transaction that was made: each is made once.
//! 2. Statements that change definitions are no part of transactions. One that was begun and whose
//!    end nobody has written down is run again, and has been done if it says that it has.
//! 3. Whoever has lost the channel makes nothing: the place that it goes on from is not the one
//!    that is written any more.
//! # Failure
//! A lost connection is made anew after a pause. A change that cannot be made stops the channel,
//! with an error that names it.
//! # Not here
//! What is said of channels (`replication`), connections (the host).

mod apply;
mod cell;
mod conflict;
mod gtid;
mod json;
mod log;
mod statement;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use collation::CollationId;
use mysql_wire::Channel as WireChannel;
use mysql_wire::binlog::event::Format;
use mysql_wire::binlog::rows::TableMap;
use sql_expression::{SqlError, SqlMode};
use stdx::{Duration, Instant};
use wire::WaitPolicy;

use crate::binlog::server_id;
use crate::directory::CONFLICT_FUNCTIONS;
use crate::kernel::{Failure, Kernel};
use crate::link::Link;
use crate::replication::CLAIMS;
use crate::replication::conflict::{self as rules, Rule};
use crate::replication::filter::Filter;
use crate::replication::row::{self, Channel, Place, Settings, Status};
use crate::result::{Encoding, HeadForm, ResultWriter};
use crate::session::detached::Detached;
use crate::session::{Origin, Session, Shared};
use crate::source::{Source, SourceEncryption, SourceFacts, SourceLog, SourceNews, SourceStart};
use crate::variables::registry;
use crate::variables::session::shown_text;

use apply::Target;
use gtid::GtidSet;
use log::Group;

/// The kernel table of the channels.
pub(crate) use crate::replication::row::TABLE;

/// How often somebody looks for channels that nobody applies.
const LOOK: Duration = Duration::from_millis(500);
/// How often a claim is renewed, and the row of the channel read.
const RENEWAL: Duration = Duration::from_millis(500);
/// How often an applier says how far it is, if that is news.
const TELLING: Duration = Duration::from_secs(1);
/// Pauses between two looks for news: the next is longer where there were none.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(10);
/// The pause before changes are tried again that have met something temporary; it doubles.
const AGAIN: Duration = Duration::from_millis(50);
/// Rows after which transactions that follow one another are committed, and the time.
const BATCH_ROWS: u64 = 1_000;
const BATCH_TIME: Duration = Duration::from_millis(50);
/// What rows are applied with: what a source has stored can be stored, and nothing is cut.
const MODE: SqlMode = SqlMode(
    SqlMode::STRICT_ALL_TABLES.0
        | SqlMode::NO_AUTO_VALUE_ON_ZERO.0
        | SqlMode::ALLOW_INVALID_DATES.0
        | SqlMode::NO_ENGINE_SUBSTITUTION.0,
);

/// The channels that this worker applies.
type Applied = Rc<RefCell<BTreeSet<u64>>>;

/// Looks for channels without an applier, to the end of the process. `clock_base` is what the
/// worker's clock counts from, in microseconds since 1970.
pub(crate) async fn watch(kernel: Kernel, shared: Rc<Shared>, clock_base: i64) {
    let applied = Applied::default();
    loop {
        if kernel.sleep(LOOK).await.is_err() {
            return;
        }
        if shared.way.is_given(&CLAIMS, &kernel) {
            continue;
        }
        let Ok(channels) = row::all(&kernel).await else { continue };
        for channel in channels {
            if !channel.settings.runs || !applied.borrow_mut().insert(channel.number) {
                continue;
            }
            let (applied, seed) = (applied.clone(), kernel.draw());
            let apply = move |kernel: Kernel, shared| async move {
                let origin = Origin { number: 0, seed, clock_base };
                let session = Session::new(kernel, shared, origin);
                let keeper = session.kernel.keeper();
                let number = channel.number;
                if CLAIMS.hold(&keeper, number, WaitPolicy::Refuse).await.is_ok() {
                    let mut applier = Applier::new(session, clock_base, channel);
                    applier.follow().await;
                    applier.session.rollback().await;
                }
                keeper.abort().await;
                applied.borrow_mut().remove(&number);
            };
            let begin = Detached(Box::new(|kernel, shared| Box::pin(apply(kernel, shared))));
            shared.detached.borrow_mut().push(begin);
        }
    }
}

/// Why an applier does not go on.
#[derive(Clone, Debug)]
enum End {
    /// The channel is to stop, or somebody else has it.
    Left,
    /// A change cannot be made.
    Stopped(SqlError),
    /// It may go better next time.
    Temporary(SqlError),
    /// The connection is over.
    Lost { code: u16, why: String, is_final: bool },
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        let is_over = matches!(failure, Failure::Interrupted(_));
        if is_over { Self::Left } else { Self::Temporary(failure.into()) }
    }
}

impl From<SqlError> for End {
    fn from(error: SqlError) -> Self {
        match error.code() {
            // A lock, a deadlock, a node that is gone, a definition that was changed, memory that
            // others have.
            1205 | 1213 | 1297 | 1296 | 1412 | 1180 | 1041 | 1114 => Self::Temporary(error),
            // The process stops.
            1317 | 1053 => Self::Left,
            _ => Self::Stopped(error),
        }
    }
}

/// Where an event stands in the log of the source.
#[derive(Clone, Debug, Default)]
struct At {
    file: String,
    end: u64,
}

/// Applies a channel.
struct Applier {
    session: Session,
    clock_base: i64,
    number: u64,
    settings: Settings,
    filter: Filter,
    /// The place that is written in the cluster.
    written: Place,
    /// The place behind all that was made in the transaction that is open.
    place: Place,
    gtids: GtidSet,
    status: Status,
    told: Status,
    told_at: Instant,
    renewed: Instant,
    /// What the source has said of itself.
    facts: SourceFacts,
    /// Gaps in the numbers of its transactions mean nothing.
    numbers_have_gaps: bool,
    format: Format,
    /// The transaction of the source that is read.
    group: Group,
    tables: BTreeMap<u64, TableMap>,
    targets: BTreeMap<String, Target>,
    at: At,
    is_idempotent: bool,
    /// What is applied is in this cluster's own log too.
    is_logged: bool,
    own_server: u32,
    /// What decides about conflicts.
    rules: Vec<Rule>,
    /// Conflicts in the transaction that is open, by function; and in that of the source.
    conflicts: [u64; CONFLICT_FUNCTIONS],
    conflict_number: u64,
    /// Rows in the transaction that is open, and whole transactions of the source.
    rows: u64,
    transactions: u64,
    began: Option<Instant>,
    /// Temporary errors in a row.
    failures: u32,
    checks_foreign_keys: bool,
}

impl Applier {
    fn new(session: Session, clock_base: i64, channel: Channel) -> Self {
        let now = session.kernel.now();
        let Channel { number, settings, place, status } = channel;
        let mut applier = Self {
            session,
            clock_base,
            number,
            filter: settings.filter.clone(),
            settings,
            written: place.clone(),
            gtids: GtidSet::parse(&place.gtids).unwrap_or_default(),
            place,
            status: Status {
                transactions: 0,
                rows: 0,
                skipped_statements: 0,
                is_connected: false,
                ..status
            },
            told: Status::default(),
            told_at: now,
            renewed: now,
            facts: SourceFacts::default(),
            numbers_have_gaps: false,
            format: Format { has_checksums: false },
            group: Group::default(),
            tables: BTreeMap::new(),
            targets: BTreeMap::new(),
            at: At::default(),
            is_idempotent: false,
            is_logged: true,
            own_server: 0,
            rules: Vec::new(),
            conflicts: [0; CONFLICT_FUNCTIONS],
            conflict_number: 0,
            rows: 0,
            transactions: 0,
            began: None,
            failures: 0,
            checks_foreign_keys: true,
        };
        applier.session.become_own();
        applier.session.count_matched = true;
        applier.session.variables.assign("autocommit", Some("OFF".to_owned()));
        applier.session.variables.assign("nines_durability", Some("memory".to_owned()));
        applier.leave();
        applier
    }

    /// Applies the channel until it is to stop, cannot go on, or somebody else has it.
    async fn follow(&mut self) {
        loop {
            let mut end = self.connection().await;
            self.session.rollback().await;
            if matches!(end, End::Stopped(_)) && !self.is_at_place().await {
                // What was in the way was made by whoever had the channel, or by a commit of which
                // nothing was heard.
                end = End::Temporary(SqlError::new(1297, "HY000", OTHER_PLACE));
            }
            self.status.is_connected = false;
            let pause = match end {
                End::Left => return self.say_left().await,
                End::Stopped(error) => return self.stop(error).await,
                End::Temporary(error) => {
                    self.failures += 1;
                    let retries = self.global("replica_transaction_retries").unwrap_or(10);
                    // Whoever waits for a lock may wait for ever; a cluster comes back.
                    let is_lock = matches!(error.code(), 1205 | 1213);
                    if is_lock && u64::from(self.failures) > retries {
                        return self.stop(error).await;
                    }
                    self.status.sql_state = format!("Waiting to try again: {}", error.message());
                    Duration::from_nanos(AGAIN.as_nanos() << self.failures.min(6))
                }
                End::Lost { code, why, is_final } => {
                    self.note_lost(code, why);
                    let attempts = self.status.attempts;
                    let most = self.settings.retry_count;
                    if is_final || most > 0 && attempts > most {
                        return self.halt().await;
                    }
                    // The first time at once: a source that was restarted is there again soon.
                    let seconds = Duration::from_secs(self.settings.connect_retry);
                    if attempts <= 1 { Duration::from_millis(200) } else { seconds }
                }
            };
            self.tell(true).await;
            if !self.pause(pause).await {
                return self.say_left().await;
            }
        }
    }

    /// Waits; false when the channel is to stop.
    async fn pause(&mut self, span: Duration) -> bool {
        let until = self.session.kernel.now() + span;
        while self.session.kernel.now() < until {
            let left = until.since(self.session.kernel.now());
            if self.session.kernel.sleep(left.min(RENEWAL)).await.is_err() {
                return false;
            }
            if matches!(self.renew().await, Err(End::Left)) {
                return false;
            }
        }
        true
    }

    fn note_lost(&mut self, code: u16, why: String) {
        let source =
            format!("{}@{}:{}", self.settings.user, self.settings.host, self.settings.port);
        let text = format!("error connecting to source '{source}' or reading from it: {why}");
        self.warn(&text);
        self.status.attempts += 1;
        self.status.io_error = (code, text, self.now());
        "Reconnecting after a failed source event read".clone_into(&mut self.status.io_state);
    }

    /// The channel has met something that somebody has to see to.
    async fn stop(&mut self, error: SqlError) {
        self.status.sql_error = (error.code(), error.message().to_owned(), self.now());
        self.status.sql_state = String::new();
        let text = format!("it has stopped: {}", error.message());
        self.warn(&text);
        self.halt().await;
    }

    async fn halt(&mut self) {
        self.status.applies = false;
        self.status.io_state = String::new();
        let kernel = self.session.kernel.beside();
        // While this cannot be said the channel is still one that runs, and meets the same again.
        let _ = row::halt(&kernel, self.number, self.settings.starts).await;
        self.tell(true).await;
    }

    async fn say_left(&mut self) {
        self.status.applies = false;
        self.status.io_state = String::new();
        self.status.sql_state = String::new();
        self.status.applier = String::new();
        self.tell(true).await;
    }

    fn warn(&self, text: &str) {
        if let Some(host) = self.session.shared.directory.sources().host() {
            host.warn(&format!("channel '{}': {text}", self.settings.channel));
        }
    }

    /// Connects, and applies what comes until the connection ends.
    async fn connection(&mut self) -> End {
        match self.connect().await {
            Ok(log) => loop {
                if let Err(end) = self.round(&*log).await {
                    return end;
                }
            },
            Err(end) => end,
        }
    }

    async fn connect(&mut self) -> Result<Box<dyn SourceLog>, End> {
        self.renew().await?;
        // Whoever had the channel before may have gone on since it was looked for.
        let channels = row::all(&self.session.kernel).await?;
        let found = channels.into_iter().find(|channel| channel.number == self.number);
        let Some(Channel { settings, place, .. }) = found else { return Err(End::Left) };
        (self.filter, self.settings) = (settings.filter.clone(), settings);
        (self.place, self.written) = (place.clone(), place);
        // A commit of which nothing was heard may be on its way: its place counts.
        if !self.is_at_place().await {
            return Err(SqlError::new(1297, "HY000", OTHER_PLACE).into());
        }
        self.gtids = GtidSet::parse(&self.place.gtids).unwrap_or_default();
        self.group = Group::default();
        self.tables.clear();
        (self.rows, self.transactions, self.began) = (0, 0, None);
        self.conflicts = [0; CONFLICT_FUNCTIONS];
        self.rules = rules::rules(&self.session.kernel).await?;
        self.targets.clear();
        self.is_idempotent =
            self.global_text("replica_exec_mode").is_some_and(|mode| mode == "IDEMPOTENT");
        self.is_logged = self.global_text("log_replica_updates").is_none_or(|logs| logs == "ON");
        self.own_server = server_id(&self.session);
        let host = self.session.shared.directory.sources().host().ok_or(End::Left)?;
        "Connecting to source".clone_into(&mut self.status.io_state);
        self.status.applies = true;
        let address = &self.session.shared.address;
        self.status.applier = format!("{}:{}", address.hostname, address.port);
        self.at = At { file: self.place.file.clone(), end: self.place.position };
        self.tell(true).await;
        host.follow(self.source()).ok_or(End::Lost {
            code: 1135,
            why: "the system has no more threads".to_owned(),
            is_final: false,
        })
    }

    /// Whether the place is the one that this applier knows, when all that is under way has ended.
    async fn is_at_place(&mut self) -> bool {
        let kernel = &self.session.kernel;
        let is = row::go_on(kernel, self.number, &self.written, &self.written).await;
        self.session.rollback().await;
        matches!(is, Ok(true))
    }

    fn source(&self) -> Source {
        let Settings { host, port, user, password, heartbeat_millis, .. } = &self.settings;
        let from = match (self.settings.auto_position, self.gtids.is_empty()) {
            (true, true) => SourceStart::FirstGtid,
            (true, false) if self.gtids.is_of_mariadb() => {
                SourceStart::MariadbGtids(self.gtids.to_string())
            }
            (true, false) => SourceStart::Gtids(self.gtids.to_string(), self.gtids.encoded()),
            (false, _) if self.place.file.is_empty() => SourceStart::Oldest,
            (false, _) => {
                SourceStart::Position(self.place.file.clone(), self.place.position.max(4))
            }
        };
        Source {
            host: host.clone(),
            port: *port,
            user: user.clone(),
            password: password.clone(),
            encryption: SourceEncryption {
                is_wanted: self.settings.tls,
                verifies_name: self.settings.tls_verify,
                asks_key: self.settings.asks_key,
                authorities: self.settings.tls_authorities.clone(),
            },
            server_id: self.own_server,
            uuid: self.global_text("server_uuid").unwrap_or_default(),
            heartbeat_millis: *heartbeat_millis,
            silence_millis: self.global("replica_net_timeout").unwrap_or(60).saturating_mul(1_000),
            from,
        }
    }

    /// Applies what has come.
    async fn round(&mut self, log: &dyn SourceLog) -> Result<(), End> {
        let mut pause = PAUSE_MIN;
        loop {
            self.renew().await?;
            let news = log.take();
            if news.is_empty() {
                // Whatever is whole is committed before there is a wait.
                self.commit_batch(true).await?;
                self.status.behind_since = 0;
                self.tell(false).await;
                self.session.kernel.sleep(pause).await?;
                pause = (pause + pause).min(PAUSE_MAX);
                continue;
            }
            pause = PAUSE_MIN;
            for one in news {
                match one {
                    SourceNews::Connected(facts) => self.connected(facts)?,
                    SourceNews::Event(bytes) => {
                        self.event(&bytes).await?;
                        self.commit_batch(false).await?;
                        self.renew().await?;
                    }
                    SourceNews::Ended { code, why, is_final } => {
                        self.commit_batch(true).await?;
                        return Err(End::Lost { code, why, is_final });
                    }
                }
            }
            self.tell(false).await;
        }
    }

    fn connected(&mut self, facts: SourceFacts) -> Result<(), End> {
        if facts.server_id == self.own_server {
            let why = "Fatal error: The replica I/O thread stops because source and replica have \
                       equal server ids; these ids must be different for replication to work: SET \
                       PERSIST server_id";
            return Err(End::Lost { code: 13_117, why: why.to_owned(), is_final: true });
        }
        self.format = Format { has_checksums: facts.has_checksums };
        self.numbers_have_gaps = facts.version.contains("nines");
        self.status.is_connected = true;
        self.status.attempts = 0;
        self.status.io_error = Default::default();
        self.status.source_server = facts.server_id;
        self.status.source_uuid.clone_from(&facts.uuid);
        self.status.source_version.clone_from(&facts.version);
        "Waiting for source to send event".clone_into(&mut self.status.io_state);
        "Replica has read all relay log; waiting for more updates"
            .clone_into(&mut self.status.sql_state);
        self.facts = facts;
        Ok(())
    }

    /// Commits whole transactions of the source: when there are many, when the first of them waits
    /// for long, or `now`.
    async fn commit_batch(&mut self, now: bool) -> Result<(), End> {
        let Some(began) = self.began else { return Ok(()) };
        if self.group.is_open() {
            return Ok(());
        }
        let is_old = self.session.kernel.now().since(began) >= BATCH_TIME;
        if now || is_old || self.rows >= BATCH_ROWS {
            self.commit().await?;
        }
        Ok(())
    }

    /// Commits what was made, with the place behind it.
    async fn commit(&mut self) -> Result<(), End> {
        self.place.gtids = self.gtids.to_string();
        if self.place == self.written {
            self.began = None;
            return Ok(());
        }
        let kernel = &self.session.kernel;
        let goes_on = row::go_on(kernel, self.number, &self.written, &self.place).await;
        match goes_on {
            Ok(true) => {}
            // Somebody else has gone on from there, or what was committed before is not known.
            Ok(false) => return Err(SqlError::new(1297, "HY000", OTHER_PLACE).into()),
            Err(failure) => return Err(failure.into()),
        }
        self.session.commit().await?;
        self.written = self.place.clone();
        self.session.shared.directory.count_conflicts(std::mem::take(&mut self.conflicts));
        self.status.rows += self.rows;
        self.status.transactions += self.transactions;
        (self.rows, self.transactions, self.began, self.failures) = (0, 0, None, 0);
        Ok(())
    }

    /// Holds the claim still, and looks whether the channel is to stop, now and then.
    async fn renew(&mut self) -> Result<(), End> {
        let now = self.session.kernel.now();
        if now.since(self.renewed) < RENEWAL {
            return Ok(());
        }
        if self.session.shared.way.is_given(&CLAIMS, &self.session.kernel) {
            return Err(End::Left);
        }
        let keeper = self.session.kernel.keeper();
        if CLAIMS.keep(&keeper, self.number, WaitPolicy::Refuse).await.is_err() {
            return Err(End::Left);
        }
        self.renewed = self.session.kernel.now();
        let channels = row::all(&self.session.kernel).await?;
        match channels.into_iter().find(|channel| channel.number == self.number) {
            Some(channel) if channel.settings.runs => Ok(()),
            _ => Err(End::Left),
        }
    }

    /// Says how far the channel is.
    async fn tell(&mut self, now: bool) {
        let time = self.session.kernel.now();
        if !now && time.since(self.told_at) < TELLING {
            return;
        }
        self.told_at = time;
        self.status.read_file.clone_from(&self.at.file);
        self.status.read_position = self.at.end;
        self.status.at = self.now() / 1_000_000;
        let is_news =
            Status { at: 0, ..self.told.clone() } != Status { at: 0, ..self.status.clone() };
        // What is said is true for some time.
        if !now && !is_news && self.status.at - self.told.at < 5 {
            return;
        }
        self.told = self.status.clone();
        // The next time says it too.
        let _ = row::tell(&self.session.kernel, self.number, &self.status).await;
    }

    /// Microseconds since 1970.
    fn now(&self) -> i64 {
        let since = self.session.kernel.now().as_nanos() / 1_000;
        self.clock_base.saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    fn global_text(&self, name: &str) -> Option<String> {
        registry::find(name).and_then(|variable| shown_text(&self.session, variable, true))
    }

    fn global(&self, name: &str) -> Option<u64> {
        self.global_text(name)?.parse().ok()
    }

    fn set_foreign_key_checks(&mut self, on: bool) {
        if self.checks_foreign_keys != on {
            let text = if on { "ON" } else { "OFF" };
            self.session.variables.assign("foreign_key_checks", Some(text.to_owned()));
            self.checks_foreign_keys = on;
        }
    }

    /// Where statements put results, of which there are none.
    fn writer(&self) -> ResultWriter {
        let link = Link::new(Rc::default());
        let channel = Rc::new(RefCell::new(WireChannel::new(1 << 20)));
        let form = HeadForm { collation: CollationId::DEFAULT, has_eof: true, described: None };
        ResultWriter::new(link, channel, 0, Encoding::Text, form, self.session.pauses.clone())
    }
}

/// What an applier says that finds another place than it has written.
const OTHER_PLACE: &str = "the channel has another place than its applier has written";
