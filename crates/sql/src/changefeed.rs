//! Change feeds: committed changes of some tables, for programs (docs/operate/changefeeds.md).
//!
//! Why it is so: `docs/decisions/0082-change-feeds.md`.
//!
//! # Owns
//! CREATE, PAUSE, RESUME and DROP CHANGEFEED, SHOW CHANGEFEEDS; what is said of each feed.
//! # Guarantees
//! A feed belongs to the cluster, and so does the change stream that it is made of. SQL nodes keep
//! nothing of it, so another one goes on where one was lost.
//! # Not here
//! Epochs and what their tables were (`binlog::epochs`).

pub(crate) mod format;
pub(crate) mod position;
pub(crate) mod reader;
pub(crate) mod row;
pub(crate) mod snapshot;
pub(crate) mod stream;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use model::cluster::STREAMS_MAX;
use model::{Epoch, ErrorCode, SchemaChange, StreamId, TableId};
use sql_expression::SqlError;
use sql_parser::ast::{
    BackupValue, ChangefeedAction, ChangefeedCommand, CreateChangefeed, Statement,
};
use sqltype::{Datum, SqlType};
use stdx::{Duration, Instant};
use wire::WaitPolicy;

use crate::backup::time::shown_time;
use crate::catalog::view::is_view;
use crate::catalog::{error, system};
use crate::claim::Claims;
use crate::definition_log::records;
use crate::error::unsupported;
use crate::files::{Output, rename};
use crate::kernel::{Failure, Kernel};
use crate::result::Outcome;
use crate::session::Session;

use format::Format;
use position::Position;
use reader::{FeedEnd, Known};
use row::{Feed, Place, Settings, Wish};

/// The kernel table of the feeds.
pub(crate) use row::TABLE;

/// The claims on feeds: who holds one writes the files of the feed of its number.
pub(crate) const CLAIMS: Claims =
    Claims { table: "#changefeed-claims", column: "changefeed", width: 8 };
/// How long it is tried to begin a feed.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);
/// How long PAUSE and DROP wait until nobody writes the feed, and how often they look.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Letters of a name.
const NAME_MAX: usize = 64;

fn failed(why: &str) -> SqlError {
    SqlError::new(1105, "HY000", why)
}

/// What a feed is, from its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Where files are written; nowhere where changes are asked for with STREAM CHANGEFEED.
    pub(crate) directory: Option<String>,
    pub(crate) format: Format,
    pub(crate) has_snapshot: bool,
}

impl Form {
    /// Reads INTO and WITH.
    ///
    /// # Errors
    /// What is not known, or not possible.
    pub(crate) fn of(create: &CreateChangefeed) -> Result<Self, SqlError> {
        let target = String::from_utf8_lossy(&create.target);
        let directory = match target.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => Some(path.trim_end_matches('/').to_owned()),
            None if target.eq_ignore_ascii_case("sql") => None,
            _ => {
                return Err(unsupported(&format!(
                    "CREATE CHANGEFEED INTO '{target}': it goes INTO 'sql', for STREAM CHANGEFEED, \
                     or INTO 'file:///DIRECTORY'"
                )));
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if directory.is_some() && !create.name.as_str().bytes().all(is_plain) {
            let why = "files are named after their change feed, so its name has letters and digits \
                       of ASCII, '_' and '-'";
            return Err(failed(why));
        }
        let mut form = Self { directory, format: Format::Json, has_snapshot: true };
        for option in &create.options {
            let name = option.name.as_str().to_ascii_lowercase();
            let wrong = |expected: &str| {
                failed(&format!("option {name} of CREATE CHANGEFEED is {expected}"))
            };
            let text = match &option.value {
                Some(BackupValue::Text(text)) => String::from_utf8_lossy(text).to_lowercase(),
                _ => String::new(),
            };
            match name.as_str() {
                "format" => {
                    let format = Format::named(&text);
                    form.format = format.ok_or_else(|| wrong("'json' or 'csv'"))?;
                }
                "snapshot" => {
                    form.has_snapshot = match text.as_str() {
                        "initial" => true,
                        "none" => false,
                        _ => return Err(wrong("'initial' or 'none'")),
                    }
                }
                _ => {
                    let why = format!(
                        "CREATE CHANGEFEED has no option '{name}': it has format and snapshot"
                    );
                    return Err(failed(&why));
                }
            }
        }
        if form.format == Format::Csv && create.tables.len() > 1 {
            return Err(failed("a change feed as CSV has one table: make one for each table"));
        }
        Ok(form)
    }
}

/// Runs CREATE, PAUSE, RESUME or DROP.
pub(crate) async fn run(session: &mut Session, statement: &Statement) -> Result<Outcome, SqlError> {
    match statement {
        Statement::CreateChangefeed(new) => create(session, new).await?,
        Statement::Changefeed(told) => command(session, told).await?,
        _ => return Err(unsupported("this statement")),
    }
    Ok(Outcome::default())
}

async fn create(session: &mut Session, create: &CreateChangefeed) -> Result<(), SqlError> {
    let name = create.name.as_str().to_owned();
    if name.is_empty() || name.chars().count() > NAME_MAX {
        let why = format!("the name of a change feed has 1 to {NAME_MAX} letters");
        return Err(failed(&why));
    }
    let form = Form::of(create)?;
    let kernel = session.kernel.beside();
    session.catch_up().await;
    let (mut create, if_not_exists) = (create.clone(), create.if_not_exists);
    create.if_not_exists = false;
    for table in &mut create.tables {
        let database = session.table_name(table)?.database;
        table.schema = Some(sql_parser::ast::Ident::new(database));
    }
    let tables = tables_of(session, &create)?;
    let settings = Settings {
        name: name.clone(),
        statement: Statement::CreateChangefeed(Box::new(create.clone())).to_string(),
        creator: session.user.clone(),
        created: session.statement_time,
        wish: Wish::Made,
        begins: 1,
        tables: tables.iter().map(|id| id.0).collect(),
        first: 0,
    };
    let (number, mut settings) = loop {
        let feeds = row::all(&kernel).await?;
        if feeds.iter().any(|feed| feed.settings.name.eq_ignore_ascii_case(&name)) {
            if if_not_exists {
                session.note(failed(&format!("change feed '{name}' exists already")));
                return Ok(());
            }
            return Err(failed(&format!("change feed '{name}' exists already")));
        }
        let number = feeds.iter().map(|feed| feed.number).max().unwrap_or(0) + 1;
        if let Some(directory) = &form.directory {
            describe(session, directory, &settings).await?;
        }
        // Somebody else may have made one meanwhile.
        if row::insert(&kernel, number, &settings).await? {
            break (number, settings);
        }
    };
    match begin(&kernel, number, &mut settings).await {
        Ok(()) => Ok(()),
        Err(error) => {
            // What is left shows that it was not completed, and can be dropped.
            let _ = kernel.change_schema(drop_stream(&settings, number)).await;
            let _ = row::remove(&kernel, number).await;
            Err(error)
        }
    }
}

/// Writes what a feed is beside its files. So whoever makes it knows that they can be written.
async fn describe(session: &Session, directory: &str, settings: &Settings) -> Result<(), SqlError> {
    let files = session.shared.admission.server_files()?;
    let kernel = session.kernel.beside();
    let path = format!("{directory}/{}.feed", settings.name);
    let part = format!("{path}.{:08x}.part", kernel.draw() as u32);
    let mut output = Output::replace(&*files, &part);
    output.write(&kernel, format!("{}\n", settings.statement).into_bytes()).await?;
    output.finish(&kernel, true).await?;
    rename(&kernel, &*files, &part, &path).await
}

/// The tables of a feed, if it can have them.
fn tables_of(session: &Session, create: &CreateChangefeed) -> Result<Vec<TableId>, SqlError> {
    let cluster = session.kernel.cluster();
    let mut ids = Vec::new();
    for name in &create.tables {
        let name = session.table_name(name)?;
        if system::schema(&name.database).is_some() {
            return Err(error::access_denied_to_database(&name.database));
        }
        if session.temporary.has(&name) {
            return Err(unsupported("CREATE CHANGEFEED of a temporary table"));
        }
        let missing = || error::no_such_table(&name.database, &name.name);
        let table = cluster.table_named(&name.full()).ok_or_else(missing)?;
        if is_view(table) {
            return Err(unsupported("CREATE CHANGEFEED of a view"));
        }
        Known::of(table, create.condition.as_ref())?;
        if ids.contains(&table.id) {
            let why = format!("table {}.{} is named twice", name.database, name.name);
            return Err(failed(&why));
        }
        ids.push(table.id);
    }
    Ok(ids)
}

fn drop_stream(settings: &Settings, number: u64) -> SchemaChange {
    SchemaChange::DropStream { name: settings.stream(number) }
}

/// Begins the stream of a feed: what is committed from now on is in it.
async fn begin(kernel: &Kernel, number: u64, settings: &mut Settings) -> Result<(), SqlError> {
    let mut tables = settings.table_ids();
    tables.push(records(kernel).await?);
    let keep = SchemaChange::KeepStream { name: settings.stream(number), tables };
    if !kernel.all_know(keep.since()) {
        return Err(unsupported("CREATE CHANGEFEED while a node has an older version"));
    }
    match kernel.change_schema(keep).await {
        Err(Failure::Refused(refusal)) if refusal.code == ErrorCode::BadDefinition => {
            let why = format!(
                "the cluster has {STREAMS_MAX} change streams, which is most: each change feed and \
                 each archive has one, and so has the binary log; drop one"
            );
            return Err(failed(&why));
        }
        other => drop(other?),
    }
    let began = kernel.now();
    let stream = stream_of(kernel, number, settings)
        .ok_or_else(|| failed("the stream of the change feed has gone"))?;
    let first = loop {
        let questions = client::opening(stream, &kernel.cluster());
        let answers = kernel.fetch_stream(questions.clone()).await?;
        if let Some(first) = client::opened(&questions, &answers) {
            break first;
        }
        wait_to_begin(kernel, began).await?;
    };
    // Whoever commits behind this statement does so in an epoch that the feed has.
    while kernel.newest_complete().await?.next() < first {
        wait_to_begin(kernel, began).await?;
    }
    settings.first = first.0;
    settings.wish = Wish::Running;
    let has_snapshot = settings.parsed().and_then(|create| Form::of(&create).ok());
    let place = Place {
        wants_snapshot: has_snapshot.is_some_and(|form| form.has_snapshot),
        through: first.0.saturating_sub(1),
        ..Place::default()
    };
    Ok(row::order(kernel, number, settings, Some(&place)).await?)
}

/// A pause of who waits since `began` for the data nodes to begin a stream.
///
/// # Errors
/// 1296 when that has taken longer than [`PATIENCE`].
async fn wait_to_begin(kernel: &Kernel, began: Instant) -> Result<(), SqlError> {
    if kernel.now().since(began) > PATIENCE {
        let why = "The change feed cannot begin: not all data nodes are there. Try again later";
        return Err(SqlError::new(1296, "HY000", why));
    }
    Ok(kernel.sleep(PAUSE).await?)
}

/// The stream of a feed, if this process knows it.
pub(crate) fn stream_of(kernel: &Kernel, number: u64, settings: &Settings) -> Option<StreamId> {
    let cluster = kernel.cluster();
    cluster.streams.get(settings.stream(number).as_str()).map(|stream| stream.id)
}

async fn command(session: &mut Session, command: &ChangefeedCommand) -> Result<(), SqlError> {
    let kernel = session.kernel.beside();
    let name = command.name.as_str();
    let Some(feed) = row::named(&kernel, name).await? else {
        let missing = no_feed(name);
        if command.action == (ChangefeedAction::Drop { if_exists: true }) {
            session.note(missing);
            return Ok(());
        }
        return Err(missing);
    };
    let Feed { number, mut settings, .. } = feed;
    match (command.action, settings.wish) {
        (ChangefeedAction::Drop { .. }, _) => {
            settings.wish = Wish::Dropped;
            row::order(&kernel, number, &settings, None).await?;
            wait_free(&kernel, number, name).await?;
            kernel.change_schema(drop_stream(&settings, number)).await?;
            row::remove(&kernel, number).await?;
        }
        (_, Wish::Dropped) => return Err(no_feed(name)),
        (_, Wish::Made) => {
            let why = format!("change feed '{name}' was not made completely: DROP CHANGEFEED it");
            return Err(failed(&why));
        }
        (ChangefeedAction::Pause, Wish::Running) => {
            settings.wish = Wish::Paused;
            row::order(&kernel, number, &settings, None).await?;
            wait_free(&kernel, number, name).await?;
        }
        (ChangefeedAction::Pause, _) => {}
        (ChangefeedAction::Resume, wish) => {
            session.catch_up().await;
            let cluster = session.kernel.cluster();
            let has_all = settings.table_ids().iter().all(|id| cluster.tables.get(id).is_some());
            let is_of_now = Epoch(settings.first).generation() == cluster.restarts.len() as u32;
            if wish == Wish::Broken || !has_all || !is_of_now {
                wait_free(&kernel, number, name).await?;
                kernel.change_schema(drop_stream(&settings, number)).await?;
                let create = settings.parsed().ok_or_else(|| failed("it cannot be read"))?;
                settings.tables = tables_of(session, &create)?.iter().map(|id| id.0).collect();
                settings.begins += 1;
                begin(&kernel, number, &mut settings).await?;
            } else if wish == Wish::Paused {
                settings.wish = Wish::Running;
                row::order(&kernel, number, &settings, None).await?;
            }
        }
    }
    Ok(())
}

pub(crate) fn no_feed(name: &str) -> SqlError {
    let why = format!("there is no change feed '{name}': see SHOW CHANGEFEEDS");
    SqlError::new(1305, "42000", why)
}

/// Waits until nobody writes the files of a feed.
async fn wait_free(kernel: &Kernel, number: u64, name: &str) -> Result<(), SqlError> {
    let began = kernel.now();
    loop {
        let is_free = CLAIMS.hold(kernel, number, WaitPolicy::Refuse).await.is_ok();
        kernel.abort().await;
        if is_free {
            return Ok(());
        }
        if kernel.now().since(began) >= STOPS_WITHIN {
            let why = format!(
                "change feed '{name}' is to stop, and does as soon as the SQL node that writes it \
                 is done with what it has begun"
            );
            return Err(failed(&why));
        }
        kernel.sleep(LOOK_AGAIN).await?;
    }
}

/// What a reader is told of the end of a feed: where it broke off, and what to do.
pub(crate) fn told(name: &str, end: &FeedEnd, behind: &str) -> SqlError {
    let why = match end {
        FeedEnd::Failed(error) => return error.clone(),
        FeedEnd::Lost { behind: epoch, from } if epoch.generation() != from.generation() => {
            "the whole cluster was restarted since: read it without FROM, or RESUME CHANGEFEED, \
             which begin anew"
                .to_owned()
        }
        FeedEnd::Lost { from, .. } => format!(
            "what comes next is not kept any more (BinlogRetention, MaxBufferedEpochBytes); \
             changes are kept from epoch {} on: FROM '{}' goes on with them, and without FROM a \
             snapshot comes first; a feed of files begins anew by RESUME CHANGEFEED",
            from.0,
            from.0.saturating_sub(1)
        ),
        FeedEnd::Gone { table, at } => format!(
            "{table} was dropped, truncated, or replaced by an ALTER TABLE that copies, in epoch \
             {}: RESUME CHANGEFEED begins anew with the table that has the name now",
            at.0
        ),
        FeedEnd::Unreadable { why, at } => format!(
            "{why}, in epoch {}: DROP CHANGEFEED and make it anew, as the definition is now",
            at.0
        ),
    };
    SqlError::new(1236, "HY000", format!("change feed '{name}' breaks off behind {behind}: {why}"))
}

/// The columns of SHOW CHANGEFEEDS.
pub(crate) fn columns() -> [(&'static str, SqlType); 12] {
    let text = || SqlType::text(512);
    [
        ("Name", text()),
        ("State", SqlType::text(16)),
        ("Target", text()),
        ("Format", SqlType::text(16)),
        ("Tables", SqlType::text(4_096)),
        ("Filter", SqlType::text(4_096)),
        ("Position", SqlType::text(64)),
        ("Position_Time", SqlType::text(32)),
        ("Lag_ms", SqlType::unsigned_big_int()),
        ("Node", text()),
        ("Error", SqlType::text(4_096)),
        ("Created", SqlType::text(32)),
    ]
}

/// The rows of SHOW CHANGEFEEDS.
pub(crate) async fn listed(session: &Session) -> Result<Vec<Vec<Datum>>, SqlError> {
    let feeds = row::all(&session.kernel.beside()).await?;
    Ok(feeds.iter().map(|feed| shown(feed, session.statement_time)).collect())
}

fn shown(feed: &Feed, now: i64) -> Vec<Datum> {
    let Feed { settings, place, status, .. } = feed;
    let parsed = settings.parsed();
    let form = parsed.as_ref().and_then(|create| Form::of(create).ok());
    let is_for_readers = form.as_ref().is_some_and(|form| form.directory.is_none());
    let state = match settings.wish {
        Wish::Made => "incomplete",
        Wish::Paused => "paused",
        Wish::Broken => "broken",
        Wish::Dropped => "dropped",
        Wish::Running if is_for_readers => "ready",
        Wish::Running if !status.error.is_empty() => "waiting",
        Wish::Running => "running",
    };
    let tables = parsed.iter().flat_map(|create| create.tables.iter().map(ToString::to_string));
    let tables: Vec<String> = tables.collect();
    let filter = parsed.as_ref().and_then(|create| create.condition.as_ref());
    let target = parsed.as_ref().map(|create| String::from_utf8_lossy(&create.target).into_owned());
    let text = |text: &str| Datum::text(text);
    let unless = |is: bool, value: Datum| if is { Datum::Null } else { value };
    let position = Position::behind(Epoch(place.through)).to_string();
    let at = i64::try_from(place.at).unwrap_or(i64::MAX);
    let lag = u64::try_from(now.saturating_sub(at)).unwrap_or(0) / 1_000;
    let has_no_time = is_for_readers || at == 0;
    vec![
        text(&settings.name),
        text(state),
        text(&target.unwrap_or_default()),
        text(form.map_or("", |form| form.format.name())),
        text(&tables.join(", ")),
        filter.map_or(Datum::Null, |filter| text(&filter.to_string())),
        unless(is_for_readers, text(&position)),
        unless(has_no_time, text(&shown_time(at))),
        unless(has_no_time, Datum::UInt(lag)),
        text(&status.node),
        text(&status.error),
        text(&shown_time(settings.created)),
    ]
}
