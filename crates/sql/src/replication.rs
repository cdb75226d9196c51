//! CHANGE REPLICATION SOURCE, CHANGE REPLICATION FILTER, START, STOP and RESET REPLICA, SHOW
//! REPLICA STATUS.
//!
//! # Owns
//! The channels of the cluster: what is said of each, and what is shown of it.
//! # Guarantees
//! A channel belongs to the cluster. Some SQL node applies it (`replica`) under a claim, and
//! another
//! one goes on when that dies. What is said of a channel is changed only while nobody applies it.
//! # Not here
//! Reading and applying the log of a source (`replica`), connections (the host).

pub(crate) mod conflict;
pub(crate) mod filter;
pub(crate) mod row;
mod settings;

use sql_expression::SqlError;
use sql_parser::ast::{ChangeFilter, ChangeSource, ReplicaAction, ReplicaCommand, Statement};
use sqltype::{Datum, SqlType};
use stdx::Duration;
use wire::WaitPolicy;

use crate::backup::time::shown_time;
use crate::claim::Claims;
use crate::error::unsupported;
use crate::kernel::Kernel;
use crate::result::Outcome;
use crate::session::Session;

use row::{Channel, Place, Settings, Status};

/// The claims on channels: who holds one applies the channel of its number.
pub(crate) const CLAIMS: Claims =
    Claims { table: "#replication-claims", column: "channel", width: 8 };
/// How long STOP REPLICA waits until nobody applies the channel, and how often it looks.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Most channels.
const CHANNELS_MAX: usize = 256;
/// Letters of a channel's name.
const NAME_MAX: usize = 64;

/// Runs one of these statements.
pub(crate) async fn run(session: &mut Session, statement: &Statement) -> Result<Outcome, SqlError> {
    match statement {
        Statement::ChangeSource(change) => change_source(session, change).await?,
        Statement::ChangeFilter(change) => change_filter(session, change).await?,
        Statement::Replica(command) => command_replica(session, command).await?,
        _ => return Err(unsupported("this statement")),
    }
    Ok(Outcome::default())
}

async fn change_source(session: &mut Session, change: &ChangeSource) -> Result<(), SqlError> {
    let name = channel_name(change.channel.as_deref())?;
    let kernel = session.kernel.beside();
    loop {
        let channels = row::all(&kernel).await?;
        let (mut channel, is_new) = match named(&channels, &name) {
            Some(found) => (found.clone(), false),
            None if channels.len() >= CHANNELS_MAX => {
                let why = format!("there are {CHANNELS_MAX} replication channels, which is most");
                return Err(SqlError::new(1105, "HY000", why));
            }
            None => {
                let number = channels.iter().map(|one| one.number).max().unwrap_or(0) + 1;
                let settings = Settings { channel: name.clone(), ..settings::new() };
                (Channel { number, settings, ..Channel::default() }, true)
            }
        };
        let moves = settings::change(&mut channel, &change.options)?;
        if !is_new {
            check_stopped(session, &channel).await?;
            let place = moves.then_some(&channel.place);
            return Ok(row::order(&kernel, channel.number, &channel.settings, place).await?);
        }
        // Somebody else may have made one meanwhile.
        if row::insert(&kernel, &channel).await? {
            return Ok(());
        }
    }
}

async fn change_filter(session: &mut Session, change: &ChangeFilter) -> Result<(), SqlError> {
    for mut channel in chosen(session, change.channel.as_deref()).await? {
        check_stopped(session, &channel).await?;
        for rule in &change.rules {
            channel.settings.filter.set(rule)?;
        }
        let kernel = session.kernel.beside();
        row::order(&kernel, channel.number, &channel.settings, None).await?;
    }
    Ok(())
}

async fn command_replica(session: &mut Session, command: &ReplicaCommand) -> Result<(), SqlError> {
    let channels = chosen(session, command.channel.as_deref()).await?;
    let kernel = session.kernel.beside();
    for channel in channels {
        let Channel { number, mut settings, .. } = channel.clone();
        match command.action {
            ReplicaAction::Start => {
                if settings.host.is_empty() || settings.user.is_empty() {
                    return Err(SqlError::new(
                        1200,
                        "HY000",
                        "The server is not configured as replica; fix with CHANGE REPLICATION \
                         SOURCE TO",
                    ));
                }
                // What means nothing is said here, and not when a row has come.
                conflict::rules(&kernel).await?;
                if !settings.runs {
                    settings.runs = true;
                    settings.starts += 1;
                    row::order(&kernel, number, &settings, None).await?;
                    let errors = Status {
                        io_error: Default::default(),
                        sql_error: Default::default(),
                        io_state: "Waiting for an SQL node to take the channel".to_owned(),
                        ..channel.status
                    };
                    row::tell(&kernel, number, &errors).await?;
                }
            }
            ReplicaAction::Stop => {
                settings.runs = false;
                row::order(&kernel, number, &settings, None).await?;
                wait_stopped(session, &channel).await?;
            }
            ReplicaAction::Reset => {
                check_stopped(session, &channel).await?;
                row::order(&kernel, number, &settings, Some(&Place::default())).await?;
            }
            ReplicaAction::ResetAll => {
                check_stopped(session, &channel).await?;
                row::remove(&kernel, number).await?;
            }
        }
    }
    Ok(())
}

/// The name of a channel; that of no name is empty.
fn channel_name(given: Option<&str>) -> Result<String, SqlError> {
    let name = given.unwrap_or_default().to_lowercase();
    if name.chars().count() > NAME_MAX {
        let why = "Couldn't create channel: Channel name is either invalid or too long.";
        return Err(SqlError::new(3077, "HY000", why));
    }
    Ok(name)
}

fn named<'c>(channels: &'c [Channel], name: &str) -> Option<&'c Channel> {
    channels.iter().find(|channel| channel.settings.channel == name)
}

/// The channels that a statement speaks of: one by its name, or all.
async fn chosen(session: &Session, given: Option<&str>) -> Result<Vec<Channel>, SqlError> {
    let channels = row::all(&session.kernel).await?;
    if given.is_none() && !channels.is_empty() {
        return Ok(channels);
    }
    let name = channel_name(given)?;
    match named(&channels, &name) {
        Some(channel) => Ok(vec![channel.clone()]),
        None if name.is_empty() => Err(SqlError::new(
            1200,
            "HY000",
            "The server is not configured as replica; fix with CHANGE REPLICATION SOURCE TO",
        )),
        None => {
            let why = format!("Replica channel '{name}' does not exist.");
            Err(SqlError::new(3074, "HY000", why))
        }
    }
}

/// Whether nobody applies a channel at this moment.
async fn is_free(kernel: &Kernel, number: u64) -> bool {
    let kernel = kernel.beside();
    let is_free = CLAIMS.hold(&kernel, number, WaitPolicy::Refuse).await.is_ok();
    kernel.abort().await;
    is_free
}

async fn check_stopped(session: &Session, channel: &Channel) -> Result<(), SqlError> {
    if !channel.settings.runs && is_free(&session.kernel, channel.number).await {
        return Ok(());
    }
    let why = format!(
        "This operation cannot be performed with running replication threads; run STOP REPLICA \
         FOR CHANNEL '{}' first",
        channel.settings.channel
    );
    Err(SqlError::new(3081, "HY000", why))
}

async fn wait_stopped(session: &Session, channel: &Channel) -> Result<(), SqlError> {
    let began = session.kernel.now();
    while session.kernel.now().since(began) < STOPS_WITHIN {
        if is_free(&session.kernel, channel.number).await {
            return Ok(());
        }
        session.kernel.sleep(LOOK_AGAIN).await?;
    }
    let why = format!(
        "channel '{}' is to stop, and does as soon as the SQL node that applies it is done with \
         what it has begun",
        channel.settings.channel
    );
    Err(SqlError::new(1105, "HY000", why))
}

/// The columns of SHOW REPLICA STATUS.
pub(crate) fn status_columns() -> Vec<(&'static str, SqlType)> {
    let text = [
        "Replica_IO_State",
        "Source_Host",
        "Source_User",
        "Source_Port",
        "Connect_Retry",
        "Source_Log_File",
        "Read_Source_Log_Pos",
        "Relay_Log_File",
        "Relay_Log_Pos",
        "Relay_Source_Log_File",
        "Replica_IO_Running",
        "Replica_SQL_Running",
        "Replicate_Do_DB",
        "Replicate_Ignore_DB",
        "Replicate_Do_Table",
        "Replicate_Ignore_Table",
        "Replicate_Wild_Do_Table",
        "Replicate_Wild_Ignore_Table",
        "Last_Errno",
        "Last_Error",
        "Skip_Counter",
        "Exec_Source_Log_Pos",
        "Relay_Log_Space",
        "Until_Condition",
        "Until_Log_File",
        "Until_Log_Pos",
        "Source_SSL_Allowed",
        "Source_SSL_CA_File",
        "Source_SSL_CA_Path",
        "Source_SSL_Cert",
        "Source_SSL_Cipher",
        "Source_SSL_Key",
        "Seconds_Behind_Source",
        "Source_SSL_Verify_Server_Cert",
        "Last_IO_Errno",
        "Last_IO_Error",
        "Last_SQL_Errno",
        "Last_SQL_Error",
        "Replicate_Ignore_Server_Ids",
        "Source_Server_Id",
        "Source_UUID",
        "Source_Info_File",
        "SQL_Delay",
        "SQL_Remaining_Delay",
        "Replica_SQL_Running_State",
        "Source_Retry_Count",
        "Source_Bind",
        "Last_IO_Error_Timestamp",
        "Last_SQL_Error_Timestamp",
        "Source_SSL_Crl",
        "Source_SSL_Crlpath",
        "Retrieved_Gtid_Set",
        "Executed_Gtid_Set",
        "Auto_Position",
        "Replicate_Rewrite_DB",
        "Channel_Name",
        "Source_TLS_Version",
        "Source_public_key_path",
        "Get_Source_public_key",
        "Network_Namespace",
    ];
    text.into_iter().map(|name| (name, SqlType::text(512))).collect()
}

/// The rows of SHOW REPLICA STATUS: those of the cluster.
///
/// # Errors
/// 3074 if there is no channel of this name.
pub(crate) async fn status(
    session: &Session,
    given: Option<&str>,
) -> Result<Vec<Vec<Datum>>, SqlError> {
    let channels = match given {
        Some(_) => chosen(session, given).await?,
        None => row::all(&session.kernel).await?,
    };
    let now = session.statement_time / 1_000_000;
    Ok(channels.iter().map(|channel| shown(channel, now)).collect())
}

/// What was said of a channel before is not true any more when it was said so long ago, in seconds.
const STALE: i64 = 15;

#[expect(clippy::too_many_lines, reason = "one line for each column")]
fn shown(channel: &Channel, now: i64) -> Vec<Datum> {
    let Channel { settings, place, status, .. } = channel;
    let is_fresh = settings.runs && now.saturating_sub(status.at) <= STALE;
    let connects = if settings.runs { "Connecting" } else { "No" };
    let io_running = if is_fresh && status.is_connected { "Yes" } else { connects };
    let sql_running = if settings.runs { "Yes" } else { "No" };
    let yes = |is: bool| if is { "Yes" } else { "No" };
    let time = |micros: i64| if micros == 0 { String::new() } else { shown_time(micros) };
    let behind = match (is_fresh && status.is_connected, status.behind_since) {
        (false, _) => Datum::Null,
        (true, 0) => Datum::text("0"),
        (true, since) => Datum::text(&now.saturating_sub(since).max(0).to_string()),
    };
    let [do_db, ignore_db, do_table, ignore_table, do_wild, ignore_wild, rewrites] =
        settings.filter.shown();
    let ignored: Vec<String> = settings.ignored_servers.iter().map(u32::to_string).collect();
    let text = |text: &str| Datum::text(text);
    let number = |number: u64| Datum::text(&number.to_string());
    let (io_errno, io_error, io_at) = &status.io_error;
    let (sql_errno, sql_error, sql_at) = &status.sql_error;
    let io_state = if is_fresh { status.io_state.as_str() } else { "" };
    let sql_state = if is_fresh { status.sql_state.as_str() } else { "" };
    vec![
        text(io_state),
        text(&settings.host),
        text(&settings.user),
        number(settings.port.into()),
        number(settings.connect_retry),
        text(&status.read_file),
        number(status.read_position),
        text(""),
        number(0),
        text(&place.file),
        text(io_running),
        text(sql_running),
        text(&do_db),
        text(&ignore_db),
        text(&do_table),
        text(&ignore_table),
        text(&do_wild),
        text(&ignore_wild),
        number((*sql_errno).into()),
        text(sql_error),
        number(0),
        number(place.position),
        number(0),
        text("None"),
        text(""),
        number(0),
        text(yes(settings.tls)),
        text(settings.tls_authorities.as_deref().unwrap_or_default()),
        text(""),
        text(""),
        text(""),
        text(""),
        behind,
        text(yes(settings.tls_verify)),
        number((*io_errno).into()),
        text(io_error),
        number((*sql_errno).into()),
        text(sql_error),
        text(&ignored.join(",")),
        number(status.source_server.into()),
        text(&status.source_uuid),
        text(""),
        number(0),
        Datum::Null,
        text(sql_state),
        number(settings.retry_count),
        text(""),
        text(&time(*io_at)),
        text(&time(*sql_at)),
        text(""),
        text(""),
        text(""),
        text(&place.gtids),
        number(settings.auto_position.into()),
        text(&rewrites),
        text(&settings.channel),
        text(""),
        text(""),
        number(settings.asks_key.into()),
        text(""),
    ]
}
