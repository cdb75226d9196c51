//! `nines backup`: shows, checks, encrypts and removes backups without a cluster.
//!
//! # Owns
//! The command line, and what is printed.
//! # Not here
//! What is done: `reader`, `rework`, `prune`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sql::BackupKey;

use super::archive::{self, Archive};
use super::place::Place;
use super::prune::{self, Retention};
use super::reader::{self, Backup};
use super::rework::{self, Change};
use super::s3::ObjectStore;

/// How long nobody has written to what counts as left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 60 * 60);

/// What `nines backup` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct BackupOptions {
    place: String,
    verb: Verb,
}

#[derive(Clone, Debug)]
enum Verb {
    Show(Given),
    Verify(Given),
    Change { change: Change, old: Given, new: Given, into: Option<String> },
    Prune(Retention),
}

/// The files that keys are in.
#[derive(Clone, Debug, Default)]
struct Given {
    key_file: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
}

/// The sub-command.
pub(crate) fn command() -> Command {
    let verb = |name: &'static str, about: &'static str| {
        Command::new(name).about(about).arg(
            Arg::new("place")
                .value_name("DIRECTORY|s3://BUCKET/PATH")
                .required(true)
                .help("Where the backup is"),
        )
    };
    let into = || {
        Arg::new("into")
            .long("into")
            .value_name("DIRECTORY|s3://BUCKET/PATH")
            .help("Leave the backup as it is, and write the other one here")
    };
    let old = |command: Command| {
        command.arg(file("key-file", "File with the key of the backup")).arg(
            file("passphrase-file", "File whose first line is the passphrase of the backup")
                .conflicts_with("key-file"),
        )
    };
    let new = |command: Command| {
        command.arg(file("new-key-file", "File with the key that it gets")).arg(
            file("new-passphrase-file", "File whose first line is the passphrase it gets")
                .conflicts_with("new-key-file"),
        )
    };
    Command::new("backup")
        .about("Show, check, encrypt or remove backups, without a cluster")
        .subcommand_required(true)
        .subcommand(old(verb("show", "Show what is in a backup")))
        .subcommand(old(verb("verify", "Check every byte of a backup")))
        .subcommand(new(verb("encrypt", "Encrypt a backup that is not")).arg(into()))
        .subcommand(
            old(verb("decrypt", "Write an encrypted backup without encryption")).arg(into()),
        )
        .subcommand(new(old(verb("rekey", "Give an encrypted backup another key"))).arg(into()))
        .subcommand(prune_command(verb("prune", "Remove old backups in a directory")))
}

fn file(name: &'static str, help: &'static str) -> Arg {
    let arg = Arg::new(name).long(name).value_name("FILE").help(help);
    arg.value_parser(value_parser!(PathBuf))
}

fn prune_command(command: Command) -> Command {
    command
        .arg(
            Arg::new("keep")
                .long("keep")
                .value_name("N")
                .required(true)
                .help("The newest backups of each set that stay in any case")
                .value_parser(value_parser!(u32).range(1..)),
        )
        .arg(
            Arg::new("older-than")
                .long("older-than")
                .value_name("AGE")
                .default_value("0d")
                .help("Only those that are older: 30d, 12h")
                .value_parser(age),
        )
        .arg(
            Arg::new("incomplete")
                .long("incomplete")
                .action(ArgAction::SetTrue)
                .help("Also what is no complete backup and has not changed for a day"),
        )
        .arg(
            Arg::new("dry-run")
                .long("dry-run")
                .action(ArgAction::SetTrue)
                .help("Only say what would be removed"),
        )
}

/// An age: `30d`, `12h`, `15m`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no age: 30d, 12h or 15m");
    let unit = match text.as_bytes().last() {
        Some(b'd') => 24 * 60 * 60,
        Some(b'h') => 60 * 60,
        Some(b'm') => 60,
        _ => return Err(wrong()),
    };
    let number = text[..text.len() - 1].parse::<u32>().map_err(|_| wrong())?;
    Ok(Duration::from_secs(u64::from(number) * unit))
}

/// What a command line asks for; none without a sub-command, which is required.
pub(crate) fn options(matches: &ArgMatches) -> Option<BackupOptions> {
    let (verb, matches) = matches.subcommand()?;
    // A sub-command has the options that it has.
    let path = |name: &str| matches.try_get_one::<PathBuf>(name).ok().flatten().cloned();
    let given = |before: &str| Given {
        key_file: path(&format!("{before}key-file")),
        passphrase_file: path(&format!("{before}passphrase-file")),
    };
    let change = |change, old| Verb::Change {
        change,
        old,
        new: given("new-"),
        into: matches.get_one::<String>("into").cloned(),
    };
    let verb = match verb {
        "show" => Verb::Show(given("")),
        "verify" => Verb::Verify(given("")),
        "encrypt" => change(Change::Encrypt, Given::default()),
        "decrypt" => change(Change::Decrypt, given("")),
        "rekey" => change(Change::Rekey, given("")),
        "prune" => Verb::Prune(Retention {
            keep: *matches.get_one::<u32>("keep")? as usize,
            older_than: *matches.get_one::<Duration>("older-than")?,
            incomplete: matches.get_flag("incomplete").then_some(LEFT_BEHIND),
            is_rehearsal: matches.get_flag("dry-run"),
        }),
        _ => return None,
    };
    Some(BackupOptions { place: matches.get_one::<String>("place")?.clone(), verb })
}

/// Runs `nines backup`.
///
/// # Errors
/// For what is no backup, is damaged or has another key; the text names the file.
pub(crate) fn run(options: &BackupOptions, out: &mut impl Write) -> Result<(), String> {
    let store = ObjectStore::default();
    let at = Place::of(&options.place, &store)?;
    let written = |result: std::io::Result<()>| result.map_err(|why| why.to_string());
    match &options.verb {
        Verb::Show(given) => show(&at, &given.key()?, out),
        Verb::Verify(given) if archive::is_archive(&at)? => {
            let key = given.key()?;
            let (files, bytes) = Archive::open(&at, &key)?.verify(&key)?;
            let shown = at.shown();
            written(writeln!(out, "{shown}: {files} files with {bytes} bytes are whole"))
        }
        Verb::Change { .. } if archive::is_archive(&at)? => Err(format!(
            "{} is an archive: its key is that of its chains; STOP ARCHIVE and START ARCHIVE with \
             another one begin a new chain",
            at.shown()
        )),
        Verb::Verify(given) => {
            let mut backup = Backup::open(&at, &given.key()?)?;
            backup.verify()?;
            let files = backup.manifest.files.len();
            let bytes: u64 = backup.manifest.files.values().map(|entry| entry.bytes).sum();
            let shown = at.shown();
            written(writeln!(out, "{shown}: {files} files with {bytes} bytes are whole"))
        }
        Verb::Change { change, old, new, into } => {
            let (old, new) = (old.key()?, new.key()?);
            if new == BackupKey::None && *change != Change::Decrypt {
                return Err("give the new key: --new-key-file or --new-passphrase-file".to_owned());
            }
            let into = into.as_ref().map(|into| Place::of(into, &store)).transpose()?;
            rework::change(&at, into.as_ref(), *change, &old, &new)?;
            let what = match change {
                Change::Encrypt => "encrypted",
                Change::Decrypt => "not encrypted",
                Change::Rekey => "encrypted by the new key",
            };
            written(writeln!(out, "{} is {what}", into.as_ref().unwrap_or(&at).shown()))
        }
        Verb::Prune(retention) => prune::run(&at, retention, out),
    }
}

impl Given {
    fn key(&self) -> Result<BackupKey, String> {
        if let Some(path) = &self.key_file {
            return Ok(BackupKey::File(path.display().to_string()));
        }
        let Some(path) = &self.passphrase_file else { return Ok(BackupKey::None) };
        let text = fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return Err(format!("{}: its first line is empty", path.display()));
        }
        Ok(BackupKey::Passphrase(line.into()))
    }
}

fn show(at: &Place, key: &BackupKey, out: &mut impl Write) -> Result<(), String> {
    let written = |result: std::io::Result<()>| result.map_err(|why| why.to_string());
    if archive::is_archive(at)? {
        return written(chains(&Archive::open(at, key)?, out));
    }
    let (manifest, _) = reader::manifest(at)?;
    written(head(at, out))?;
    if manifest.encryption.is_some() && *key == BackupKey::None {
        // What the manifest says everybody may see.
        return written(writeln!(out, "contents    encrypted: give the key to see them"));
    }
    let backup = Backup::open(at, key)?;
    written(contents(&backup, out))
}

fn chains(archive: &Archive, out: &mut impl Write) -> std::io::Result<()> {
    let time = |micros: u64| sql::shown_time(i64::try_from(micros).unwrap_or(i64::MAX));
    for chain in archive.chains.iter().map(|of| &of.chain) {
        writeln!(out, "chain       {}", chain.place)?;
        writeln!(out, "started     {}", sql::shown_time(chain.start.began))?;
        writeln!(out, "segments    {}", chain.count)?;
        if let (Some(first), Some(last)) = (chain.segments.first(), chain.segments.last()) {
            writeln!(out, "epochs      {} to {}", first.first, last.through)?;
            writeln!(out, "until       {} UTC", time(last.ended))?;
            let end = last.end.as_deref().unwrap_or("open");
            writeln!(out, "end         {end}")?;
        }
        for base in &chain.bases {
            let began = sql::shown_time(base.began);
            writeln!(out, "full backup {}, epoch {}, {began}", base.place, base.epoch)?;
        }
        for (_, why) in &chain.faults {
            writeln!(out, "damage      {why}")?;
        }
    }
    Ok(())
}

fn head(at: &Place, out: &mut impl Write) -> std::io::Result<()> {
    for backup in reader::list(at).map_err(std::io::Error::other)? {
        writeln!(out, "directory   {}", backup.place)?;
        writeln!(out, "started     {}", sql::shown_time(backup.began))?;
        writeln!(out, "epoch       {}", backup.epoch)?;
        writeln!(out, "bytes       {}", backup.bytes)?;
        writeln!(out, "encrypted   {}", if backup.is_encrypted { "yes" } else { "no" })?;
        writeln!(out, "state       {}", backup.state)?;
    }
    Ok(())
}

fn contents(backup: &Backup, out: &mut impl Write) -> std::io::Result<()> {
    let contents = &backup.contents;
    writeln!(out, "subject     {}", contents.subject)?;
    writeln!(out, "set         {}", backup.manifest.set)?;
    writeln!(out, "version     {}", contents.version)?;
    writeln!(out, "ended       {}", sql::shown_time(contents.ended))?;
    for database in &contents.databases {
        writeln!(out, "database    {}", database.name)?;
    }
    for table in &contents.tables {
        writeln!(out, "table       {}.{}, {} rows", table.database, table.name, table.rows)?;
    }
    for view in &contents.views {
        writeln!(out, "view        {}.{}", view.database, view.name)?;
    }
    writeln!(out, "accounts    {}", contents.accounts.len())
}
