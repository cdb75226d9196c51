//! The command lines of `nines import` and `nines export`.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use mysql_client::{Login, Target};

use super::column::Binary;
use super::decode::Encoding;
use super::export::{self, Export};
use super::import::{self, Duplicate, Import};
use super::migrate::{self, Migration};
use super::record::{Form, Shape};
use super::{Server, password, prove};

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum TransferOptions {
    /// `nines import`.
    Import(Box<ImportOptions>),
    /// `nines import mysql://…`.
    Migrate(Box<MigrateOptions>),
    /// `nines export`.
    Export(Box<ExportOptions>),
}

/// What `nines import` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct ImportOptions(Import);

/// What `nines import mysql://…` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct MigrateOptions(Migration);

/// What `nines export` is asked for.
#[derive(Clone, Debug)]
pub(crate) struct ExportOptions(Export);

/// What `nines import --help` ends with.
const IMPORT_HELP: &str = "\
Examples:
  nines import shop.orders orders.csv
  nines import shop.orders part-*.csv --jobs 8 --on-duplicate replace
  nines import shop.orders old.txt --format tsv --no-head --columns id,name --encoding latin1
  zcat events.jsonl.gz | nines import logs.events - --format jsonl
  nines import mysql://root@db.old:3306/shop --source-password-file secret
  nines import mysql://root@db.old:3306/shop --source-password-file secret --switch \
    --set-source-read-only

From a server, databases are copied with their tables and views as they are at one moment, while
they are in use; then a replication channel follows the server's log until --switch. An import that
was ended goes on with --resume: an unfinished copy is taken away and begun again.

Values: in CSV nothing without quotes is NULL (--null has another text for it), \"\" is an empty
text. In TSV \\N is NULL. In JSON lines each line is an object; members that are missing get the
defaults of their columns. Bytes (BINARY, BLOB) are hexadecimal digits or base64, BIT is a number.
TIMESTAMP is in UTC.

Each batch of rows is one transaction. An import that was ended goes on with --resume: what it
has done is in FILE.nines-import. A row that the server refuses ends the import, with its file and
line, unless --max-errors lets some be left out.";

/// What `nines export --help` ends with.
const EXPORT_HELP: &str = "\
Examples:
  nines export shop.orders --into /data/orders
  nines export shop.orders --into - --format jsonl --where 'paid = 0' | gzip > unpaid.jsonl.gz
  nines export shop.orders --into /data/orders --jobs 8 --files 64

A table with a primary key of one integer is cut into files by ranges of it; each file shows one
moment. For one moment of all rows say --files 1, or make a backup. A file has its name when it is
whole; an export that was ended goes on with --resume. Computed columns are left out. What is
written `nines import` reads with the same options.";

/// Adds the table, and who asks whom.
fn shared(command: Command, table: &'static str, help: &'static str) -> Command {
    command
        .arg(Arg::new("table").value_name(table).required(true).help(help))
        .arg(
            Arg::new("socket")
                .long("socket")
                .value_name("PATH")
                .help("Unix socket of an SQL node [default: NINES_SQL_SOCKET]")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("host")
                .long("host")
                .value_name("HOST[:PORT]")
                .conflicts_with("socket")
                .help("An SQL node by TCP, without encryption: for networks that are trusted"),
        )
        .arg(
            Arg::new("user")
                .long("user")
                .value_name("NAME")
                .help("The account [default: NINES_SQL_USER, or root]"),
        )
        .arg(
            Arg::new("password-file")
                .long("password-file")
                .value_name("FILE")
                .help("File whose first line is the password; none without it")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .value_name("N")
                .default_value("4")
                .help("Connections at a time")
                .value_parser(value_parser!(u16).range(1..=256)),
        )
}

/// Adds what is to be known of the files.
fn of_files(command: Command) -> Command {
    command
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .help("csv, tsv or jsonl [default: by the name of the file, or csv]")
                .value_parser(form),
        )
        .arg(
            Arg::new("delimiter")
                .long("delimiter")
                .value_name("BYTE")
                .default_value(",")
                .help("What is between two values of CSV")
                .value_parser(delimiter),
        )
        .arg(
            Arg::new("null")
                .long("null")
                .value_name("TEXT")
                .default_value("")
                .help("What is NULL in CSV where it is not quoted"),
        )
        .arg(
            Arg::new("no-head")
                .long("no-head")
                .action(ArgAction::SetTrue)
                .help("The first line does not name the columns"),
        )
        .arg(
            Arg::new("columns")
                .long("columns")
                .value_name("NAME,…")
                .value_delimiter(',')
                .help("The columns, in the order of the values"),
        )
        .arg(
            Arg::new("binary")
                .long("binary")
                .value_name("FORM")
                .default_value("hex")
                .help("How bytes are written: hex or base64")
                .value_parser(binary),
        )
}

/// The sub-command `import`.
pub(crate) fn import_command() -> Command {
    let about = "Load CSV, TSV or JSON lines into a table, or databases from another server";
    let command = shared(
        Command::new("import").about(about),
        "DATABASE.TABLE|mysql://USER@HOST[:PORT]/DATABASE,…",
        "The table, which is there; or a server and databases that are not here yet",
    );
    migrate::command::with_options(of_files(command))
        .arg(
            Arg::new("files")
                .value_name("FILE")
                .num_args(1..)
                .help("The files, one after the other; - is standard input")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            Arg::new("encoding")
                .long("encoding")
                .value_name("NAME")
                .default_value("utf8")
                .help("utf8, latin1 (Windows-1252), utf16le or utf16be")
                .value_parser(encoding),
        )
        .arg(
            Arg::new("on-duplicate")
                .long("on-duplicate")
                .value_name("WHAT")
                .default_value("error")
                .help("What is done with a row whose key is there: error, ignore or replace")
                .value_parser(duplicate),
        )
        .arg(
            Arg::new("batch")
                .long("batch")
                .value_name("ROWS")
                .default_value("500")
                .help("Rows in a transaction, at most; 1 MB ends one before")
                .value_parser(value_parser!(u16).range(1..=10_000)),
        )
        .arg(
            Arg::new("max-errors")
                .long("max-errors")
                .value_name("N")
                .default_value("0")
                .help("Rows that may be left out because the server refuses them")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .action(ArgAction::SetTrue)
                .help("Go on with an import that was ended, with the same options"),
        )
        .after_help(IMPORT_HELP)
}

/// The sub-command `export`.
pub(crate) fn export_command() -> Command {
    of_files(shared(
        Command::new("export").about("Write the rows of a table as CSV, TSV or JSON lines"),
        "DATABASE.TABLE",
        "The table, which is there",
    ))
    .arg(
        Arg::new("into")
            .long("into")
            .value_name("DIRECTORY")
            .required(true)
            .help("Where the files come, which is not there or empty; - is standard output")
            .value_parser(value_parser!(PathBuf)),
    )
    .arg(
        Arg::new("where")
            .long("where")
            .value_name("CONDITION")
            .help("Only rows of which this condition of SQL is true"),
    )
    .arg(
        Arg::new("files")
            .long("files")
            .value_name("N")
            .default_value("16")
            .help("Files, at most, where the primary key is one integer")
            .value_parser(value_parser!(u16).range(1..=10_000)),
    )
    .arg(
        Arg::new("resume")
            .long("resume")
            .action(ArgAction::SetTrue)
            .help("Go on with an export that was ended, with the same options"),
    )
    .after_help(EXPORT_HELP)
}

fn form(text: &str) -> Result<Form, String> {
    match text.to_ascii_lowercase().as_str() {
        "csv" => Ok(Form::Csv),
        "tsv" => Ok(Form::Tsv),
        "jsonl" | "ndjson" => Ok(Form::JsonLines),
        "parquet" => Err("Parquet is not read or written: convert it to CSV or jsonl".to_owned()),
        _ => Err(format!("`{text}` is none of csv, tsv, jsonl")),
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r') && byte.is_ascii() => Ok(*byte),
        b"\\t" => Ok(b'\t'),
        _ => Err(format!("`{text}` is no delimiter: one byte, no quote and no end of a line")),
    }
}

fn binary(text: &str) -> Result<Binary, String> {
    match text {
        "hex" => Ok(Binary::Hex),
        "base64" => Ok(Binary::Base64),
        _ => Err(format!("`{text}` is neither hex nor base64")),
    }
}

fn encoding(text: &str) -> Result<Encoding, String> {
    match text.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "utf8mb4" => Ok(Encoding::Utf8),
        "latin1" | "cp1252" | "windows1252" => Ok(Encoding::Latin1),
        "utf16le" => Ok(Encoding::Utf16Le),
        "utf16be" => Ok(Encoding::Utf16Be),
        _ => Err(format!("`{text}` is none of utf8, latin1, utf16le, utf16be")),
    }
}

fn duplicate(text: &str) -> Result<Duplicate, String> {
    match text {
        "error" => Ok(Duplicate::Refuse),
        "ignore" => Ok(Duplicate::Ignore),
        "replace" => Ok(Duplicate::Replace),
        _ => Err(format!("`{text}` is none of error, ignore, replace")),
    }
}

/// What a name of a file tells of its form.
fn form_of(path: &std::path::Path) -> Result<Form, String> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match form(ending) {
        Err(why) if ending.eq_ignore_ascii_case("parquet") => Err(why),
        found => Ok(found.unwrap_or(Form::Csv)),
    }
}

pub(super) fn server(matches: &ArgMatches) -> Result<Server, String> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let socket = matches.get_one::<PathBuf>("socket").cloned();
    let socket = socket.or_else(|| set("NINES_SQL_SOCKET").map(PathBuf::from));
    let target = match (socket, matches.get_one::<String>("host")) {
        (_, Some(host)) => {
            let (host, port) = host.rsplit_once(':').unwrap_or((host, "3306"));
            let port =
                port.parse().map_err(|_| format!("`{port}` is no port: --host HOST:PORT"))?;
            Target::Tcp(host.trim_matches(['[', ']']).to_owned(), port)
        }
        (Some(path), None) => Target::Socket(path),
        (None, None) => {
            return Err("which SQL node? --socket PATH (or NINES_SQL_SOCKET), or --host".to_owned());
        }
    };
    let password = matches.get_one::<PathBuf>("password-file").map(password).transpose()?;
    let user = matches.get_one::<String>("user").cloned();
    let user = user.or_else(|| set("NINES_SQL_USER")?.into_string().ok());
    let user = user.unwrap_or_else(|| "root".to_owned());
    let login = Login {
        user,
        password: password.unwrap_or_default(),
        prove,
        prove_natively: None,
        encrypt: None,
    };
    Ok(Server { target, login })
}

fn shape(matches: &ArgMatches, otherwise: Form) -> Shape {
    Shape {
        form: matches.get_one::<Form>("format").copied().unwrap_or(otherwise),
        delimiter: matches.get_one::<u8>("delimiter").copied().unwrap_or(b','),
        null: matches.get_one::<String>("null").cloned().unwrap_or_default().into_bytes(),
    }
}

fn columns(matches: &ArgMatches) -> Option<Vec<String>> {
    let names = matches.get_many::<String>("columns")?;
    Some(names.map(|name| name.trim().to_owned()).collect())
}

pub(super) fn count(matches: &ArgMatches, name: &str) -> usize {
    matches.get_one::<u16>(name).copied().unwrap_or(1).into()
}

/// What a command line of `import` asks for.
pub(crate) fn import_options(matches: &ArgMatches) -> Result<TransferOptions, String> {
    let table = matches.get_one::<String>("table").cloned().unwrap_or_default();
    if table.starts_with(migrate::SCHEME) {
        let migration = migrate::command::migration(matches, &table)?;
        return Ok(TransferOptions::Migrate(Box::new(MigrateOptions(migration))));
    }
    migrate::command::check_files(matches)?;
    let files: Vec<PathBuf> = matches.get_many("files").unwrap_or_default().cloned().collect();
    if files.is_empty() {
        return Err(format!("which files have the rows of {table}? - is standard input"));
    }
    let form = files.first().map_or(Ok(Form::Csv), |file| form_of(file))?;
    Ok(TransferOptions::Import(Box::new(ImportOptions(Import {
        server: server(matches)?,
        table,
        shape: shape(matches, form),
        files,
        encoding: matches.get_one::<Encoding>("encoding").copied().unwrap_or(Encoding::Utf8),
        binary: matches.get_one::<Binary>("binary").copied().unwrap_or(Binary::Hex),
        has_head: !matches.get_flag("no-head"),
        columns: columns(matches),
        duplicate: matches.get_one("on-duplicate").copied().unwrap_or(Duplicate::Refuse),
        jobs: count(matches, "jobs"),
        batch: count(matches, "batch"),
        errors_max: matches.get_one::<u64>("max-errors").copied().unwrap_or(0),
        resume: matches.get_flag("resume"),
    }))))
}

/// What a command line of `export` asks for.
pub(crate) fn export_options(matches: &ArgMatches) -> Result<TransferOptions, String> {
    let into = matches.get_one::<PathBuf>("into").cloned();
    Ok(TransferOptions::Export(Box::new(ExportOptions(Export {
        server: server(matches)?,
        table: matches.get_one::<String>("table").cloned().unwrap_or_default(),
        into: into.filter(|path| path.as_os_str() != "-"),
        shape: shape(matches, Form::Csv),
        binary: matches.get_one::<Binary>("binary").copied().unwrap_or(Binary::Hex),
        has_head: !matches.get_flag("no-head"),
        columns: columns(matches),
        condition: matches.get_one::<String>("where").cloned(),
        jobs: count(matches, "jobs"),
        files: count(matches, "files"),
        resume: matches.get_flag("resume"),
    }))))
}

/// Imports or exports.
pub(crate) fn run(options: &TransferOptions) -> Result<(), String> {
    let told = match options {
        TransferOptions::Import(options) => import::run(&options.0)?,
        TransferOptions::Migrate(options) => migrate::run(&options.0)?,
        TransferOptions::Export(options) => export::run(&options.0)?,
    };
    if told.is_empty() {
        Ok(())
    } else {
        writeln!(io::stdout(), "{told}").map_err(|why| why.to_string())
    }
}
