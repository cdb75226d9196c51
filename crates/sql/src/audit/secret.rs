//! A statement's text without the passwords that are in it.
//!
//! # Guarantees
//! The password, or the stored password, of a statement about accounts is written as `<secret>`,
//! as MySQL's logs have it; also where the statement is in a string that PREPARE names. Any other
//! string or comment that speaks of passwords is written as `<secret>` as a whole: it may be a
//! statement that is put together from parts.

use std::borrow::Cow;

use sql_parser::SqlMode;
use sql_parser::ast::{
    AuthenticationSecret, BackupOption, BackupValue, Prepare, PrepareSource, Show, SourceOption,
    SourceValue, Statement, UserSpec,
};

use super::event::TEXT_MAX;

/// In place of a password.
const SECRET: &str = "<secret>";

/// The text of a statement as it may be seen; what is longer than [`TEXT_MAX`] is cut.
pub(crate) fn hidden<'a>(statement: &Statement, text: &'a [u8], mode: SqlMode) -> Cow<'a, str> {
    let shown = match written_anew(statement, mode) {
        Some(text) => Cow::Owned(text),
        None => {
            let text = &text[..text.len().min(TEXT_MAX)];
            masked(text.trim_ascii(), mode)
        }
    };
    if shown.len() > TEXT_MAX {
        Cow::Owned(shown[..shown.floor_char_boundary(TEXT_MAX)].to_owned())
    } else {
        shown
    }
}

/// The statement by its tree, where that has a place for a password.
fn written_anew(statement: &Statement, mode: SqlMode) -> Option<String> {
    let has_place = matches!(
        statement,
        Statement::CreateUser(_)
            | Statement::AlterUser(_)
            | Statement::SetPassword(_)
            | Statement::Prepare(_)
            | Statement::Backup(_)
            | Statement::Restore(_)
            | Statement::StartArchive(_)
            | Statement::ChangeSource(_)
            | Statement::Unsupported { .. }
    ) || matches!(statement, Statement::Show(show) if matches!(**show, Show::Backups(_)));
    // Others may be large.
    let mut copy = has_place.then(|| statement.clone())?;
    match &mut copy {
        Statement::CreateUser(create) => create.users.iter_mut().for_each(hide_in_user),
        Statement::AlterUser(alter) => alter.users.iter_mut().for_each(hide_in_user),
        Statement::SetPassword(set) => {
            [&mut set.password, &mut set.replace].into_iter().flatten().for_each(hide);
        }
        Statement::Backup(backup) | Statement::Restore(backup) => {
            backup.options.iter_mut().for_each(hide_in_option);
            hide_in_place(&mut backup.place);
        }
        Statement::StartArchive(archive) => {
            archive.options.iter_mut().for_each(hide_in_option);
            hide_in_place(&mut archive.place);
        }
        Statement::Show(show) => {
            if let Show::Backups(place) = &mut **show {
                hide_in_place(place);
            }
        }
        Statement::ChangeSource(change) => change.options.iter_mut().for_each(hide_in_source),
        Statement::Prepare(prepare) => hide_in_prepare(prepare, mode)?,
        // Nothing but its name is known of an unsupported one.
        _ => {}
    }
    Some(copy.to_string().replace(&format!("'{SECRET}'"), SECRET))
}

fn hide(secret: &mut Box<[u8]>) {
    *secret = SECRET.as_bytes().into();
}

fn hide_in_user(spec: &mut UserSpec) {
    spec.replace.iter_mut().for_each(hide);
    let Some(authentication) = &mut spec.authentication else { return };
    match &mut authentication.secret {
        AuthenticationSecret::Password(secret) | AuthenticationSecret::Stored(secret) => {
            hide(secret);
        }
        AuthenticationSecret::None | AuthenticationSecret::Random => {}
    }
}

fn hide_in_option(option: &mut BackupOption) {
    if option.name.as_str().eq_ignore_ascii_case("passphrase")
        && let Some(BackupValue::Text(text)) = &mut option.value
    {
        hide(text);
    }
}

fn hide_in_source(option: &mut SourceOption) {
    if &*option.name == "SOURCE_PASSWORD" {
        option.value = SourceValue::Text(SECRET.as_bytes().into());
    }
}

/// An address that says more than where: that may be a name and a password.
fn hide_in_place(place: &mut Box<[u8]>) {
    let is_address = place.windows(3).any(|part| part == b"://");
    if is_address && place.iter().any(|byte| b"@?#&".contains(byte)) {
        hide(place);
    }
}

/// PREPARE of a text: the statement that is in it, as it may be seen.
fn hide_in_prepare(prepare: &mut Prepare, mode: SqlMode) -> Option<()> {
    let PrepareSource::Text(text) = &mut prepare.source else { return None };
    *text = match sql_parser::parse(text, mode) {
        Ok(statement) => hidden(&statement, text, mode).as_bytes().into(),
        Err(_) => SECRET.as_bytes().into(),
    };
    Some(())
}

/// The text without strings and comments that speak of passwords.
fn masked(text: &[u8], mode: SqlMode) -> Cow<'_, str> {
    if !speaks_of_passwords(text) {
        return String::from_utf8_lossy(text);
    }
    let (mut shown, mut at) = (Vec::with_capacity(text.len()), 0);
    while at < text.len() {
        let end = at + length(&text[at..], mode);
        let part = &text[at..end];
        let is_whole = part.len() > 1 && part[0] != b'`' && speaks_of_passwords(part);
        shown.extend_from_slice(if is_whole { SECRET.as_bytes() } else { part });
        at = end;
    }
    Cow::Owned(String::from_utf8_lossy(&shown).into_owned())
}

fn speaks_of_passwords(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let is_address = has(b"s3://") && text.contains(&b'@');
    is_address || has(b"identified") || has(b"password") || has(b"passphrase")
}

/// How long the string, quoted name or comment is that begins a text; 1 if none does.
fn length(text: &[u8], mode: SqlMode) -> usize {
    let until = |end: &[u8], from: usize| {
        let rest = text.get(from..).unwrap_or_default();
        let found = rest.windows(end.len()).position(|part| part == end);
        found.map_or(text.len(), |place| from + place + end.len())
    };
    match text {
        [quote @ (b'\'' | b'"' | b'`'), ..] => {
            let escapes = *quote != b'`' && !mode.no_backslash_escapes;
            let mut at = 1;
            while at < text.len() {
                match text[at] {
                    b'\\' if escapes => at += 1,
                    byte if byte == *quote && text.get(at + 1) == Some(quote) => at += 1,
                    byte if byte == *quote => return at + 1,
                    _ => {}
                }
                at += 1;
            }
            text.len()
        }
        // What it holds is a part of the statement.
        [b'/', b'*', b'!' | b'+', ..] => 1,
        [b'/', b'*', ..] => until(b"*/", 2),
        [b'#', ..] => until(b"\n", 1),
        [b'-', b'-', next, ..] if next.is_ascii_whitespace() => until(b"\n", 2),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mode = SqlMode::default();
        let parsed = sql_parser::parse_at(text.as_bytes(), 0, mode);
        let parsed = parsed.unwrap_or_else(|error| panic!("{text}: {}", error.message()));
        hidden(&parsed.statement, text.as_bytes(), mode).into_owned()
    }

    /// Every statement of the grammar that has a place for a password, and ways around it.
    #[test]
    fn no_password_is_seen() {
        for text in [
            "CREATE USER u IDENTIFIED BY 'S3cret'",
            "CREATE USER u IDENTIFIED WITH caching_sha2_password BY 'S3cret', \
             v IDENTIFIED BY 'S3cret'",
            "CREATE USER u IDENTIFIED WITH mysql_native_password AS '*S3cret'",
            "CREATE USER IF NOT EXISTS u@'h' IDENTIFIED BY \"S3cret\" REQUIRE SSL",
            "ALTER USER u IDENTIFIED BY 'S3cret' REPLACE 'S3cret' RETAIN CURRENT PASSWORD",
            "ALTER USER u IDENTIFIED WITH caching_sha2_password AS 'S3cret'",
            "ALTER USER USER() IDENTIFIED BY 'S3cret'",
            "ALTER USER u IDENTIFIED BY RANDOM PASSWORD REPLACE 'S3cret'",
            "SET PASSWORD = 'S3cret'",
            "SET PASSWORD FOR u = 'S3cret' REPLACE 'S3cret' RETAIN CURRENT PASSWORD",
            "SET PASSWORD TO RANDOM REPLACE 'S3cret'",
            "BACKUP ALL INTO '/b' WITH passphrase = 'S3cret'",
            "START ARCHIVE INTO '/b' WITH passphrase = 'S3cret'",
            "restore database d from '/b' with accounts, PASSPHRASE = 'S3cret'",
            "PREPARE s FROM 'CREATE USER u IDENTIFIED BY ''S3cret'''",
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'h', SOURCE_PASSWORD = 'S3cret'",
            "change master to master_password = \"S3cret\" for channel 'c'",
            "PREPARE s FROM 'no statement S3cret'",
            "SET @q = 'CREATE USER u IDENTIFIED BY ''S3cret'''",
            "SET @q = 'ALTER USER u IDENTIFIED BY \\'S3cret\\''",
            "SET @q = CONCAT('SET PASSWORD = ''S3cret''', '')",
            "SELECT 1 /* IDENTIFIED BY 'S3cret' */",
            "SELECT 1 # password S3cret\n + 1",
            "SELECT 1 -- password S3cret\n + 1",
            "CREATE USER u /* it's */ IDENTIFIED BY 'S3cret' -- S3cret",
            "BACKUP ALL INTO 's3://key:S3cret@bucket/path'",
            "RESTORE ALL FROM 's3://bucket/path?X-Amz-Signature=S3cret'",
            "SHOW BACKUPS IN 's3://key:S3cret@bucket'",
        ] {
            let shown = shown(text);
            assert!(!shown.contains("S3cret") && shown.contains(SECRET), "{text}: {shown}");
        }
    }

    #[test]
    fn everything_else_is_seen_as_it_came() {
        for text in [
            "SELECT 'it''s', \"a\\\"b\", `password`, 'x' FROM t",
            "UPDATE t SET password = 'x', b = '\\'' WHERE identified = 1",
            "INSERT INTO t VALUES ('a', 'b')",
        ] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(
            shown("create user u identified by 'x' comment 'IDENTIFIED'"),
            "CREATE USER 'u' IDENTIFIED BY <secret> COMMENT 'IDENTIFIED'"
        );
        assert_eq!(shown("PREPARE s FROM 'SELECT ?'"), "PREPARE `s` FROM 'SELECT ?'");
        let long = format!("SELECT '{}'", "ä".repeat(TEXT_MAX));
        assert!(shown(&long).len() <= TEXT_MAX && shown(&long).len() > TEXT_MAX - 4);
    }

    #[test]
    fn what_does_not_parse_shows_no_keys_either() {
        let text = b"BACKUP ALL 's3://key:S3cret@bucket/path'";
        let masked = masked(text, SqlMode::default());
        assert!(!masked.contains("S3cret") && masked.contains(SECRET), "{masked}");
    }

    #[test]
    fn strings_end_where_the_mode_says() {
        let text = br"SELECT 'a\', 'password S3cret'";
        let mode = SqlMode { no_backslash_escapes: true, ..SqlMode::default() };
        assert_eq!(masked(text, mode), r"SELECT 'a\', <secret>");
    }
}
