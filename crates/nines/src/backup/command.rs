//! `nines backup show` and `nines backup verify`: a backup without a cluster.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, value_parser};
use sql::BackupKey;

use super::reader::{self, Backup};

/// What `nines backup` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct BackupOptions {
    /// Every byte is checked.
    verifies: bool,
    directory: PathBuf,
    key_file: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
}

/// The sub-command.
pub(crate) fn command() -> Command {
    let verb = |name: &'static str, about: &'static str| {
        let file = |name: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("FILE")
                .help(help)
                .value_parser(value_parser!(PathBuf))
        };
        Command::new(name)
            .about(about)
            .arg(
                Arg::new("directory")
                    .value_name("DIRECTORY")
                    .required(true)
                    .help("Directory of the backup")
                    .value_parser(value_parser!(PathBuf)),
            )
            .arg(file("key-file", "File with the key of an encrypted backup"))
            .arg(
                file("passphrase-file", "File whose first line is the passphrase of the backup")
                    .conflicts_with("key-file"),
            )
    };
    Command::new("backup")
        .about("Show or check a backup, without a cluster")
        .subcommand_required(true)
        .subcommand(verb("show", "Show what is in a backup"))
        .subcommand(verb("verify", "Check every byte of a backup"))
}

/// What a command line asks for; none without a sub-command, which is required.
pub(crate) fn options(matches: &ArgMatches) -> Option<BackupOptions> {
    let (verb, matches) = matches.subcommand()?;
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    Some(BackupOptions {
        verifies: verb == "verify",
        directory: path("directory")?,
        key_file: path("key-file"),
        passphrase_file: path("passphrase-file"),
    })
}

/// Runs `nines backup`.
///
/// # Errors
/// For what is no backup, is damaged or has another key; the text names the file.
pub(crate) fn run(options: &BackupOptions, out: &mut impl Write) -> Result<(), String> {
    let written = |result: std::io::Result<()>| result.map_err(|why| why.to_string());
    let key = key(options)?;
    let (manifest, _) = reader::manifest(&options.directory)?;
    if manifest.encryption.is_some() && key == BackupKey::None && !options.verifies {
        // What the manifest says everybody may see.
        written(head(&options.directory, out))?;
        return written(writeln!(out, "contents    encrypted: give the key to see them"));
    }
    let mut backup = Backup::open(&options.directory, &key)?;
    if options.verifies {
        backup.verify()?;
        let files = backup.manifest.files.len();
        let bytes: u64 = backup.manifest.files.values().map(|entry| entry.bytes).sum();
        return written(writeln!(
            out,
            "{}: {files} files with {bytes} bytes are whole",
            options.directory.display()
        ));
    }
    written(head(&options.directory, out))?;
    written(contents(&backup, out))
}

fn key(options: &BackupOptions) -> Result<BackupKey, String> {
    if let Some(path) = &options.key_file {
        return Ok(BackupKey::File(path.display().to_string()));
    }
    let Some(path) = &options.passphrase_file else { return Ok(BackupKey::None) };
    let text = fs::read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Ok(BackupKey::Passphrase(line.into()))
}

fn head(directory: &Path, out: &mut impl Write) -> std::io::Result<()> {
    for backup in reader::list(directory).map_err(std::io::Error::other)? {
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
