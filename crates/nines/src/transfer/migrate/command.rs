//! The options of `nines import mysql://…`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use mysql_client::Login;

use super::address::Address;
use super::{CHANNEL, Encryption, Migration, Task};
use crate::replication::{encrypt_password, prove_natively};
use crate::transfer::command::{count, server};
use crate::transfer::{password, prove};

/// The heading of these options in the help.
const HEADING: &str = "From a server (mysql://…)";
/// Options that mean something for files only.
const OF_FILES: [&str; 10] = [
    "files",
    "format",
    "delimiter",
    "null",
    "no-head",
    "columns",
    "binary",
    "encoding",
    "on-duplicate",
    "max-errors",
];
/// Options that mean something for servers only.
const OF_SERVERS: [&str; 16] = [
    "source-password-file",
    "source-tls-ca",
    "source-insecure",
    "replication-user",
    "replication-password-file",
    "follow",
    "no-follow",
    "channel",
    "skip",
    "journal",
    "check",
    "compare",
    "switch",
    "set-source-read-only",
    "writes-stopped",
    "no-compare",
];

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help).help_heading(HEADING)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help).help_heading(HEADING)
}

/// Adds the options.
pub(in crate::transfer) fn with_options(command: Command) -> Command {
    let path = || value_parser!(PathBuf);
    command
        .arg(
            option("source-password-file", "FILE", "File whose first line is the password there")
                .value_parser(path()),
        )
        .arg(
            option(
                "source-tls-ca",
                "FILE",
                "Authorities (PEM) of which one has to have signed the source's certificate",
            )
            .value_parser(path()),
        )
        .arg(
            flag("source-insecure", "Do not encrypt the connection to the source")
                .conflicts_with("source-tls-ca"),
        )
        .arg(option(
            "replication-user",
            "NAME",
            "The account by which SQL nodes read the source's log [default: that of the address]",
        ))
        .arg(
            option("replication-password-file", "FILE", "File whose first line is its password")
                .value_parser(path())
                .requires("replication-user"),
        )
        .arg(flag("follow", "Follow the source's log after the copy (the default)"))
        .arg(flag("no-follow", "Copy, and do not follow the source's log").conflicts_with("follow"))
        .arg(option("channel", "NAME", "The replication channel").default_value(CHANNEL))
        .arg(
            option("skip", "DATABASE.NAME", "A table or view that is left out; may be repeated")
                .action(ArgAction::Append),
        )
        .arg(
            option("journal", "FILE", "What was made [default: HOST-PORT-DATABASE.nines-import]")
                .value_parser(path()),
        )
        .arg(
            flag("check", "Find out whether an import would succeed, and import nothing")
                .conflicts_with_all(["compare", "switch", "resume"]),
        )
        .arg(
            flag("compare", "Compare counts and checksums of all tables")
                .conflicts_with_all(["switch", "resume"]),
        )
        .arg(
            flag("switch", "Wait until all of the source is here, compare, remove the channel")
                .conflicts_with("resume"),
        )
        .arg(flag("set-source-read-only", "Make the source read-only before").requires("switch"))
        .arg(
            flag("writes-stopped", "Nobody writes to the source, though it is not read-only")
                .requires("switch"),
        )
        .arg(flag("no-compare", "Switch without a comparison").requires("switch"))
}

/// The first of some options that the command line has.
fn first_given<'n>(matches: &ArgMatches, names: &[&'n str]) -> Option<&'n str> {
    let is_given = |name: &&&str| {
        matches.try_contains_id(name).unwrap_or(false)
            && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    names.iter().find(is_given).copied()
}

/// That an import of files has no options of servers.
///
/// # Errors
/// The option.
pub(in crate::transfer) fn check_files(matches: &ArgMatches) -> Result<(), String> {
    match first_given(matches, &OF_SERVERS) {
        Some(name) => Err(format!("--{name} is for an import from a server: mysql://USER@HOST/…")),
        None => Ok(()),
    }
}

/// What a command line asks for, whose address is `text`.
///
/// # Errors
/// What is wrong with it.
pub(in crate::transfer) fn migration(
    matches: &ArgMatches,
    text: &str,
) -> Result<Migration, String> {
    if let Some(name) = first_given(matches, &OF_FILES) {
        let name = if name == "files" { "FILE".to_owned() } else { format!("--{name}") };
        return Err(format!("{name} is for an import of files, and this is one from a server"));
    }
    let address = Address::parse(text)?;
    let file = |name: &str| matches.get_one::<PathBuf>(name);
    let has = |name: &str| matches.get_flag(name);
    let secret = |name: &str| file(name).map(password).transpose();
    let encryption = match file("source-tls-ca") {
        // SQL nodes have other working directories.
        Some(path) => {
            Encryption::Verified(std::path::absolute(path).map_err(|why| why.to_string())?)
        }
        None if has("source-insecure") => Encryption::Never,
        None => Encryption::IfThere,
    };
    let login = |user: String, password: String| Login {
        user,
        password,
        prove,
        prove_natively: Some(prove_natively),
        encrypt: (encryption == Encryption::Never).then_some(encrypt_password),
    };
    let source_password = secret("source-password-file")?.unwrap_or_default();
    let source_login = login(address.user.clone(), source_password);
    let replica_login = match matches.get_one::<String>("replication-user") {
        Some(user) => login(user.clone(), secret("replication-password-file")?.unwrap_or_default()),
        None => source_login.clone(),
    };
    let mut skip = Vec::new();
    for given in matches.get_many::<String>("skip").into_iter().flatten() {
        let (database, table) = given
            .split_once('.')
            .ok_or_else(|| format!("--skip: `{given}` is no DATABASE.NAME"))?;
        if !address.databases.iter().any(|one| one == database) {
            return Err(format!("--skip: database `{database}` is not among those of the address"));
        }
        skip.push((database.to_owned(), table.to_owned()));
    }
    let channel = matches.get_one::<String>("channel").cloned().unwrap_or_default();
    let task = match (has("check"), has("compare"), has("switch")) {
        (true, _, _) => Task::Check,
        (_, true, _) => Task::Compare,
        (_, _, true) => Task::Switch,
        _ => Task::Import,
    };
    let journal = file("journal").cloned().unwrap_or_else(|| journal_of(&address));
    Ok(Migration {
        task,
        text: text.to_owned(),
        server: server(matches)?,
        jobs: count(matches, "jobs"),
        batch: count(matches, "batch"),
        follows: !has("no-follow"),
        resumes: has("resume"),
        sets_read_only: has("set-source-read-only"),
        writes_stopped: has("writes-stopped"),
        compares: !has("no-compare"),
        address,
        source_login,
        replica_login,
        encryption,
        first_encrypted: Arc::default(),
        channel,
        skip,
        journal,
    })
}

/// Where the journal is, if nothing is said.
fn journal_of(address: &Address) -> PathBuf {
    let Address { host, port, databases, .. } = address;
    let stem = format!("{host}-{port}-{}", databases.first().map_or("", String::as_str));
    // Names of SQL may have bytes in them that a name of a file may not.
    Path::new(".").join(format!("{}.nines-import", stem.replace(['/', '\0', ':'], "_")))
}
