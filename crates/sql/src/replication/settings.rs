//! The options of CHANGE REPLICATION SOURCE.
//!
//! # Guarantees
//! An option that would promise what nothing keeps is refused by its name.

use sql_expression::SqlError;
use sql_parser::ast::{SourceOption, SourceValue};

use super::row::{Channel, Place, Settings};

/// MySQL's defaults: seconds between attempts, attempts, seconds between heartbeats.
const CONNECT_RETRY: u64 = 60;
const RETRY_COUNT: u64 = 86_400;
const HEARTBEAT_MILLIS: u64 = 5_000;
const PORT: u16 = 3_306;

/// What a channel begins with.
pub(super) fn new() -> Settings {
    Settings {
        port: PORT,
        connect_retry: CONNECT_RETRY,
        retry_count: RETRY_COUNT,
        heartbeat_millis: HEARTBEAT_MILLIS,
        ..Settings::default()
    }
}

/// Changes what is said of a channel; whether its place has changed too.
///
/// # Errors
/// Options that do not fit together (1776), that say what is not there (1235), that have no such
/// value (1210).
pub(super) fn change(channel: &mut Channel, options: &[SourceOption]) -> Result<bool, SqlError> {
    let (mut file, mut position) = (None, None);
    let before = channel.settings.clone();
    let settings = &mut channel.settings;
    for option in options {
        match &*option.name {
            "SOURCE_HOST" => settings.host = text(option)?,
            "SOURCE_PORT" => settings.port = whole(option, 65_535)? as u16,
            "SOURCE_USER" => settings.user = text(option)?,
            "SOURCE_PASSWORD" => settings.password = text(option)?,
            "SOURCE_LOG_FILE" => file = Some(text(option)?),
            "SOURCE_LOG_POS" => position = Some(whole(option, u64::MAX)?.max(4)),
            "SOURCE_AUTO_POSITION" => settings.auto_position = whole(option, 1)? == 1,
            "SOURCE_USE_GTID" => settings.auto_position = uses_gtid(option)?,
            "SOURCE_CONNECT_RETRY" => settings.connect_retry = whole(option, 86_400)?.max(1),
            "SOURCE_RETRY_COUNT" => settings.retry_count = whole(option, u64::MAX)?,
            "SOURCE_HEARTBEAT_PERIOD" => settings.heartbeat_millis = millis(option)?,
            "SOURCE_SSL" => settings.tls = whole(option, 1)? == 1,
            "SOURCE_SSL_VERIFY_SERVER_CERT" => settings.tls_verify = whole(option, 1)? == 1,
            "SOURCE_SSL_CA" => {
                let path = text(option)?;
                settings.tls_authorities = (!path.is_empty()).then_some(path);
            }
            "IGNORE_SERVER_IDS" => settings.ignored_servers = servers(option)?,
            "GET_SOURCE_PUBLIC_KEY" => settings.asks_key = whole(option, 1)? == 1,
            // What is so anyway: compression is not asked for, and no accounts are checked.
            "SOURCE_COMPRESSION_ALGORITHMS" | "SOURCE_ZSTD_COMPRESSION_LEVEL" => {}
            "REQUIRE_ROW_FORMAT" => {}
            "SOURCE_PUBLIC_KEY_PATH" | "SOURCE_TLS_VERSION" if is_off(option) => {}
            "SOURCE_TLS_CIPHERSUITES" if is_off(option) => {}
            "SOURCE_DELAY" | "SOURCE_CONNECTION_AUTO_FAILOVER" if is_off(option) => {}
            "SOURCE_BIND" | "NETWORK_NAMESPACE" | "SOURCE_SSL_CERT" if is_off(option) => {}
            "SOURCE_SSL_KEY" | "SOURCE_SSL_CAPATH" | "SOURCE_SSL_CIPHER" if is_off(option) => {}
            "SOURCE_SSL_CRL" | "SOURCE_SSL_CRLPATH" | "PRIVILEGE_CHECKS_USER" if is_off(option) => {
            }
            "REQUIRE_TABLE_PRIMARY_KEY_CHECK" | "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS"
                if is_off(option) => {}
            "GTID_ONLY" if is_off(option) => {}
            "RELAY_LOG_FILE" | "RELAY_LOG_POS" => {
                return Err(SqlError::not_supported("RELAY_LOG_FILE: there are no relay logs"));
            }
            name => return Err(SqlError::not_supported(name)),
        }
    }
    let says_place = file.is_some() || position.is_some();
    if says_place && settings.auto_position {
        return Err(SqlError::new(
            1776,
            "HY000",
            "Parameters SOURCE_LOG_FILE, SOURCE_LOG_POS, RELAY_LOG_FILE and RELAY_LOG_POS cannot \
             be set when SOURCE_AUTO_POSITION is active.",
        ));
    }
    let is_elsewhere =
        (&before.host, before.port) != (&settings.host, settings.port) && !settings.auto_position;
    if says_place || is_elsewhere {
        let of_before = if is_elsewhere { String::new() } else { channel.place.file.clone() };
        channel.place = Place {
            file: file.unwrap_or(of_before),
            position: position.unwrap_or(4),
            gtids: channel.place.gtids.clone(),
            ..Place::default()
        };
        return Ok(true);
    }
    Ok(false)
}

fn wrong(option: &SourceOption) -> SqlError {
    let text = format!("Incorrect arguments to {}", option.name);
    SqlError::new(1210, "HY000", text)
}

fn text(option: &SourceOption) -> Result<String, SqlError> {
    match &option.value {
        SourceValue::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| wrong(option))?;
            if text.len() > 1_024 {
                return Err(wrong(option));
            }
            Ok(text.to_owned())
        }
        SourceValue::Word(word) if word.as_str() == "NULL" => Ok(String::new()),
        _ => Err(wrong(option)),
    }
}

fn whole(option: &SourceOption, most: u64) -> Result<u64, SqlError> {
    let number = match &option.value {
        SourceValue::Number(digits) => digits.parse().ok(),
        _ => None,
    };
    number.filter(|number| *number <= most).ok_or_else(|| wrong(option))
}

fn millis(option: &SourceOption) -> Result<u64, SqlError> {
    let seconds = match &option.value {
        SourceValue::Number(digits) => digits.parse::<f64>().ok(),
        _ => None,
    };
    let seconds = seconds.filter(|seconds| (0.0..=4_294_967.0).contains(seconds));
    seconds.map(|seconds| (seconds * 1_000.0) as u64).ok_or_else(|| wrong(option))
}

fn servers(option: &SourceOption) -> Result<Vec<u32>, SqlError> {
    let SourceValue::Numbers(numbers) = &option.value else { return Err(wrong(option)) };
    numbers.iter().map(|number| u32::try_from(*number).map_err(|_| wrong(option))).collect()
}

/// MariaDB's MASTER_USE_GTID.
fn uses_gtid(option: &SourceOption) -> Result<bool, SqlError> {
    let SourceValue::Word(word) = &option.value else { return Err(wrong(option)) };
    match word.as_str().to_ascii_lowercase().as_str() {
        "no" => Ok(false),
        "slave_pos" | "replica_pos" | "current_pos" => Ok(true),
        _ => Err(wrong(option)),
    }
}

/// Whether an option says what is so without it.
fn is_off(option: &SourceOption) -> bool {
    match &option.value {
        SourceValue::Text(text) => text.is_empty(),
        SourceValue::Number(digits) => &**digits == "0",
        SourceValue::Word(word) => {
            ["NULL", "OFF", "STREAM"].iter().any(|off| word.eq_ignore_ascii_case(off))
        }
        SourceValue::Numbers(numbers) => numbers.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use sql_parser::ast::Statement;

    use super::*;

    fn changed(channel: &mut Channel, text: &str) -> Result<bool, u16> {
        let statement = format!("CHANGE REPLICATION SOURCE TO {text}");
        let parsed = sql_parser::parse(statement.as_bytes(), sql_parser::SqlMode::default());
        let Ok(Statement::ChangeSource(options)) = parsed else { panic!("{statement}") };
        change(channel, &options.options).map_err(|error| error.code())
    }

    #[test]
    fn a_source_is_said_in_parts() {
        let mut channel = Channel { settings: new(), ..Channel::default() };
        let said = "SOURCE_HOST = 'a', SOURCE_USER = 'u', SOURCE_PASSWORD = 'p', SOURCE_SSL = 1, \
                    SOURCE_HEARTBEAT_PERIOD = 0.5, SOURCE_LOG_FILE = 'b.1', SOURCE_LOG_POS = 99";
        assert_eq!(changed(&mut channel, said), Ok(true));
        let Settings { port, tls, heartbeat_millis, .. } = channel.settings;
        assert_eq!((port, tls, heartbeat_millis), (3_306, true, 500));
        assert_eq!((channel.place.file.as_str(), channel.place.position), ("b.1", 99));
        // What is not said stays, and so does the place.
        assert_eq!(changed(&mut channel, "SOURCE_PASSWORD = 'q'"), Ok(false));
        assert_eq!((channel.settings.user.as_str(), channel.place.position), ("u", 99));
        // Another server has another log.
        assert_eq!(changed(&mut channel, "SOURCE_PORT = 3307"), Ok(true));
        assert_eq!((channel.place.file.as_str(), channel.place.position), ("", 4));
    }

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        let mut channel = Channel { settings: new(), ..Channel::default() };
        assert_eq!(changed(&mut channel, "SOURCE_DELAY = 0, SOURCE_BIND = ''"), Ok(false));
        assert_eq!(changed(&mut channel, "SOURCE_DELAY = 5"), Err(1235));
        assert_eq!(changed(&mut channel, "SOURCE_PUBLIC_KEY_PATH = 'key.pem'"), Err(1235));
        assert_eq!(changed(&mut channel, "SOURCE_TLS_VERSION = 'TLSv1.3'"), Err(1235));
        assert_eq!(changed(&mut channel, "SOURCE_SOMETHING = 5"), Err(1235));
        assert_eq!(changed(&mut channel, "SOURCE_PORT = 70000"), Err(1210));
        assert_eq!(changed(&mut channel, "SOURCE_HOST = 5"), Err(1210));
        let both = "SOURCE_AUTO_POSITION = 1, SOURCE_LOG_FILE = 'b'";
        assert_eq!(changed(&mut channel, both), Err(1776));
        assert_eq!(changed(&mut channel, "SOURCE_USE_GTID = slave_pos"), Ok(false));
        assert!(channel.settings.auto_position);
    }
}
