//! The command line: sub-commands, options, their limits and defaults.
//!
//! # Guarantees
//! Whatever is wrong with a command line is said in one line that names the option.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use cluster_config::nearest;
use model::NodeId;
use runtime::{DiskEngine, TlsSettings};

use crate::application::QUERY_MEMORY_MIN;
use crate::audit::AuditOptions;
use crate::backup::command::{self as backup, BackupOptions};
use crate::config::{self, ConfigOptions};
use crate::ctl::CtlOptions;
use crate::demo::DemoOptions;
use crate::dev::{DevOptions, Tuning};
use crate::encryption::KeyOptions;
use crate::inspect::InspectOptions;
use crate::place::{PlaceOptions, RootPassword, TlsOptions};
use crate::role::token::Token;
use crate::role::{Connect, DataOptions, JoinOptions, ManagementOptions, SqlOptions};
use crate::top::TopOptions;
use crate::transfer::command::{self as transfer, TransferOptions};

/// What a command line asks for.
pub(crate) enum Parsed {
    /// `nines dev`.
    Dev(Box<DevOptions>),
    /// `nines management`.
    Management(ManagementOptions),
    /// `nines data`.
    Data(DataOptions),
    /// `nines sql`.
    Sql(Box<SqlOptions>),
    /// `nines demo`.
    Demo(DemoOptions),
    /// `nines ctl`.
    Ctl(CtlOptions),
    /// `nines top`.
    Top(TopOptions),
    /// `nines inspect`.
    Inspect(InspectOptions),
    /// `nines backup`.
    Backup(BackupOptions),
    /// `nines config`.
    Config(ConfigOptions),
    /// `nines import` or `nines export`.
    Transfer(TransferOptions),
    /// A text to print: help, the version.
    Text(String),
    /// It cannot be done; why.
    Wrong(String),
}

/// Reads a command line; the first argument is the program.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = match program().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => return explain(&error, &arguments),
    };
    match matches.subcommand() {
        Some(("dev", matches)) => match dev_options(matches) {
            Ok(options) => Parsed::Dev(Box::new(options)),
            Err(why) => Parsed::Wrong(why),
        },
        Some(("management", matches)) => Parsed::Management(ManagementOptions {
            file: matches.get_one::<PathBuf>("file").cloned().expect("it is required"),
            node: node_id(matches),
            keys: key_options(matches),
            join: join_options(matches),
        }),
        Some(("data", matches)) => Parsed::Data(DataOptions {
            connect: matches.get_one::<Connect>("connect").cloned().expect("it has a default"),
            node: node_id(matches),
            initial: matches.get_flag("initial"),
            keys: key_options(matches),
            join: join_options(matches),
        }),
        Some(("sql", matches)) => Parsed::Sql(Box::new(SqlOptions {
            connect: matches.get_one::<Connect>("connect").cloned().expect("it has a default"),
            node: node_id(matches),
            place: place_options(matches),
            workers: matches.get_one::<u8>("workers").copied(),
            durable: is_durable(matches),
            token: join_options(matches).token,
        })),
        Some(("demo", matches)) => Parsed::Demo(DemoOptions {
            seconds: matches.get_one::<u64>("seconds").copied().expect("it has a default"),
        }),
        Some(("ctl", matches)) => Parsed::Ctl(CtlOptions {
            connect: matches.get_one::<Connect>("connect").cloned(),
            join: join_options(matches),
            json: matches.get_flag("json"),
            words: matches.get_many("order").into_iter().flatten().cloned().collect(),
        }),
        Some(("top", matches)) => Parsed::Top(TopOptions {
            connect: matches.get_one::<Connect>("connect").cloned(),
            join: join_options(matches),
            once: matches.get_flag("once"),
            json: matches.get_flag("json"),
            interval: matches.get_one::<u64>("interval").copied().expect("it has a default"),
        }),
        Some(("inspect", matches)) => Parsed::Inspect(InspectOptions {
            paths: matches.get_many("path").into_iter().flatten().cloned().collect(),
            all: matches.get_flag("all"),
            keys: key_options(matches),
        }),
        Some(("import", matches)) => {
            transfer::import_options(matches).map_or_else(Parsed::Wrong, Parsed::Transfer)
        }
        Some(("export", matches)) => {
            transfer::export_options(matches).map_or_else(Parsed::Wrong, Parsed::Transfer)
        }
        Some(("backup", matches)) => match backup::options(matches) {
            Some(options) => Parsed::Backup(options),
            None => Parsed::Wrong("nines backup: say what, for example show".to_owned()),
        },
        Some(("config", matches)) => Parsed::Config(config::options(matches)),
        Some((name, _)) => Parsed::Wrong(format!("there is no `nines {name}`; see `nines --help`")),
        None => Parsed::Text(program().render_help().to_string().trim_end().to_string()),
    }
}

/// Help goes out as it is, an error as one line: its first paragraph, joined, since the names of
/// what is missing stand in the lines below the complaint. What was nearly written right is named.
fn explain(error: &clap::Error, arguments: &[OsString]) -> Parsed {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Parsed::Text(text.trim_end().to_string())
        }
        _ => {
            let paragraph = text.lines().map(str::trim).take_while(|line| !line.is_empty());
            let line = paragraph.collect::<Vec<_>>().join(" ");
            let line = line.strip_prefix("error: ").unwrap_or(&line);
            match meant(error, arguments) {
                Some(meant) => Parsed::Wrong(format!("{line}; did you mean `{meant}`?")),
                None => Parsed::Wrong(format!("{line}; see `nines --help`")),
            }
        }
    }
}

/// The command or option that is nearest to one that is not known.
fn meant(error: &clap::Error, arguments: &[OsString]) -> Option<String> {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => Some(name.clone()),
        _ => None,
    };
    let mut command = program();
    for argument in arguments.iter().skip(1) {
        let Some(inner) = command.find_subcommand(argument) else { break };
        command = inner.clone();
    }
    if let Some(name) = named(ContextKind::InvalidSubcommand) {
        let commands = command.get_subcommands();
        return nearest(&name, commands.map(Command::get_name)).map(str::to_owned);
    }
    let name =
        named(ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let is_option = name.starts_with('-');
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    let options = options.filter_map(Arg::get_long).filter(|_| is_option);
    let option = nearest(name.trim_start_matches('-'), options).map(|option| format!("--{option}"));
    // A word in the wrong place may be a command.
    let commands = command.get_subcommands().map(Command::get_name);
    option.or_else(|| nearest(&name, commands).map(str::to_owned))
}

fn program() -> Command {
    Command::new("nines")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A distributed in-memory SQL database that speaks MySQL's protocol")
        .subcommand(dev())
        .subcommand(demo())
        .subcommand(management())
        .subcommand(data())
        .subcommand(sql())
        .subcommand(ctl())
        .subcommand(top())
        .subcommand(inspect())
        .subcommand(backup::command())
        .subcommand(transfer::import_command())
        .subcommand(transfer::export_command())
        .subcommand(config::command())
}

fn dev() -> Command {
    Command::new("dev")
        .about("Runs a whole cluster in this process, in memory or on disk")
        .args(storage())
        .args(keys())
        .arg(flag(
            "decrypt",
            "Use the key to read what is encrypted, and encrypt nothing from now on",
        ))
        .args(place())
        .args(logins())
        .args(audit())
        .arg(
            option("data-nodes", "N", "Data nodes [default: 2]")
                .value_parser(value_parser!(u16).range(1..=48)),
        )
        .arg(
            option("replicas", "N", "Copies of each row, each on another data node [default: 2]")
                .value_parser(value_parser!(u8).range(1..=4)),
        )
        .arg(worker_threads())
        .arg(
            option("http-port", "PORT", "Port of metrics and health checks; 0 takes a free one")
                .value_parser(value_parser!(u16)),
        )
        .arg(
            option("data-memory", "SIZE", "Memory of each data node, as in 512M or 2G")
                .value_parser(size),
        )
        .arg(
            option("query-memory", "SIZE", "Memory for statements [default: a quarter of all]")
                .value_parser(query_size),
        )
}

fn demo() -> Command {
    Command::new("demo")
        .about("Runs a cluster as separate processes, moves money in it, and kills data nodes")
        .arg(
            option("seconds", "N", "How long to go on")
                .value_parser(value_parser!(u64).range(10..=3_600))
                .default_value("30"),
        )
}

fn management() -> Command {
    Command::new("management")
        .visible_alias("mgmd")
        .about("Runs a management node: it has the configuration, breaks ties, answers nines ctl")
        .arg(
            option("file", "FILE", "The cluster's configuration, in the format of config.ini")
                .short('f')
                .value_parser(value_parser!(PathBuf))
                .required(true),
        )
        .arg(node_id_option())
        .args(keys())
        .arg(join("management"))
        .arg(tls_dir("The node's key and certificates [default: in its data directory]"))
}

fn data() -> Command {
    Command::new("data")
        .visible_alias("ndbd")
        .about("Runs a data node")
        .arg(connect())
        .arg(node_id_option())
        .arg(flag("initial", "Forget what is on the node's disk; the other nodes give it all rows"))
        .args(keys())
        .arg(join("data"))
        .arg(tls_dir("The node's key and certificates [default: node-N in the working directory]"))
}

fn sql() -> Command {
    Command::new("sql")
        .about("Runs an SQL node, which clients of MySQL connect to")
        .arg(connect())
        .arg(node_id_option())
        .arg(
            option("dir", "DIR", "For the Unix socket and traces [default: one in /tmp]")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(durability())
        .args(place())
        .args(logins())
        .args(audit())
        .arg(worker_threads())
        .arg(join("sql"))
}

fn ctl() -> Command {
    Command::new("ctl")
        .visible_alias("mgm")
        .about("Shows and controls a cluster; without an order, asks for them")
        .arg(connect_of_operator())
        .arg(join("ctl"))
        .arg(tls_dir("The operator's key and certificate [default: ~/.config/nines]"))
        .arg(flag("json", "Answer as JSON, where the order only reads"))
        .arg(
            Arg::new("order")
                .value_name("ORDER")
                .help("What to do, as in show, status, restart 2; `help` lists all")
                .num_args(0..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true),
        )
}

fn top() -> Command {
    Command::new("top")
        .about("Watches a cluster: processor time, operations, memory, links, and what is full")
        .arg(connect_of_operator())
        .arg(tls_dir("The operator's key and certificate [default: ~/.config/nines]"))
        .arg(flag("once", "Look for one interval, print that, and end"))
        .arg(flag("json", "Print a line of JSON for each interval"))
        .arg(
            option("interval", "SECONDS", "How long rates are taken over")
                .short('i')
                .value_parser(value_parser!(u64).range(1..=3_600))
                .default_value("2"),
        )
}

fn connect() -> Arg {
    option("connect", "HOST[:PORT],…", "Management nodes")
        .short('c')
        .value_parser(Connect::parse)
        .default_value("localhost")
}

fn connect_of_operator() -> Arg {
    option("connect", "HOST[:PORT],…", "Management nodes [default: your cluster on this host]")
        .short('c')
        .value_parser(Connect::parse)
}

/// By what a process becomes a member of the cluster.
fn join(role: &str) -> Arg {
    let help = format!(
        "Get a certificate by this token, once: `nines ctl token create --role {role}` makes one"
    );
    Arg::new("join").long("join").value_name("TOKEN|@FILE").help(help).value_parser(token)
}

fn tls_dir(help: &'static str) -> Arg {
    option("tls-dir", "DIR", help).value_parser(value_parser!(PathBuf))
}

/// A token, or one that is in a file.
fn token(text: &str) -> Result<Token, String> {
    match text.strip_prefix('@') {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            Token::parse(&text.map_err(|error| format!("cannot read {file}: {error}"))?)
        }
        None => Token::parse(text),
    }
}

fn join_options(matches: &ArgMatches) -> JoinOptions {
    let token = matches.try_get_one::<Token>("join").ok().flatten();
    let directory = matches.try_get_one::<PathBuf>("tls-dir").ok().flatten();
    JoinOptions { directory: directory.cloned(), token: token.cloned() }
}

fn node_id_option() -> Arg {
    option("node-id", "N", "The node of the configuration to be [default: one that is free]")
        .value_parser(value_parser!(u16).range(1..=255))
}

fn node_id(matches: &ArgMatches) -> Option<NodeId> {
    matches.get_one::<u16>("node-id").copied().map(NodeId)
}

fn worker_threads() -> Arg {
    option("workers", "N", "Worker threads [default: the CPUs this process may use]")
        .value_parser(value_parser!(u8).range(1..=64))
}

/// Options that say where clients connect.
fn place() -> [Arg; 4] {
    [
        option(
            "bind",
            "ADDRESS",
            "Address to listen on, localhost (both of them) or * for all; may be repeated",
        )
        .action(ArgAction::Append)
        .value_delimiter(',')
        .default_value("localhost"),
        option("port", "PORT", "TCP port of the MySQL protocol; 0 chooses a free one")
            .value_parser(value_parser!(u16))
            .default_value("3306"),
        option("socket", "PATH", "Unix socket of the MySQL protocol [default: in DIR]")
            .value_parser(value_parser!(PathBuf)),
        flag("allow-insecure", "Listen on addresses other than loopback without encryption"),
    ]
}

/// Options that say how clients log in, and how their connections are encrypted.
fn logins() -> [Arg; 15] {
    let file = |name, help| option(name, "FILE", help).value_parser(value_parser!(PathBuf));
    [
        file("tls-cert", "Certificates as PEM, the server's first [default: one is made]")
            .requires("tls-key"),
        file("tls-key", "Private key of the certificate as PEM").requires("tls-cert"),
        file("tls-ca", "Authorities whose certificates clients may show, as PEM"),
        option("tls-version", "LIST", "Versions of TLS; empty to encrypt nothing")
            .default_value("TLSv1.2,TLSv1.3"),
        option(
            "tls-ciphers",
            "LIST",
            "Cipher suites of TLS 1.2, with : between them [default: all]",
        ),
        option("tls-ciphersuites", "LIST", "Cipher suites of TLS 1.3 [default: all]"),
        option(
            "tls-dir",
            "DIR",
            "Where keys and certificates that are made are kept [default: in DIR]",
        )
        .value_parser(value_parser!(PathBuf)),
        option("temp-dir", "DIR", "Where statements keep temporary files [default: DIR/tmp]")
            .value_parser(value_parser!(PathBuf)),
        option("tls-name", "NAME", "A further name of the server, for a certificate that is made")
            .action(ArgAction::Append),
        flag("require-secure-transport", "Refuse TCP connections without encryption"),
        flag("mysql-native-password", "Let accounts of the plugin mysql_native_password log in"),
        flag(
            "initialize-insecure",
            "Leave root without a password as long as nobody has changed accounts",
        )
        .conflicts_with("reset-root-password"),
        flag("reset-root-password", "Give root a new random password, which is written to a file"),
        option(
            "secure-file-priv",
            "DIR",
            "Let SELECT … INTO OUTFILE and LOAD DATA INFILE use the files below a directory",
        )
        .value_parser(value_parser!(PathBuf)),
        flag("local-infile", "Ask clients for files that LOAD DATA LOCAL names"),
    ]
}

/// Options of the audit log.
fn audit() -> [Arg; 10] {
    let of_log = |name, value, help| option(name, value, help).requires("audit-log-file");
    let list =
        |name, help| of_log(name, "LIST", help).value_delimiter(',').action(ArgAction::Append);
    let size = |name, help| of_log(name, "SIZE", help).value_parser(bytes);
    [
        option("audit-log-file", "FILE", "Write connections and statements to a file, as JSON")
            .value_parser(value_parser!(PathBuf)),
        of_log("audit-log-policy", "WHAT", "Which events: ALL, LOGINS, QUERIES or NONE")
            .value_parser(["ALL", "LOGINS", "QUERIES", "NONE"]),
        of_log("audit-log-strategy", "HOW", "Whether statements wait for their events")
            .value_parser(["ASYNCHRONOUS", "PERFORMANCE", "SEMISYNCHRONOUS", "SYNCHRONOUS"]),
        list("audit-log-statements", "Classes of statements: READ, WRITE, DEFINITION, … [all]")
            .value_parser(sql::AUDIT_CLASSES),
        list("audit-log-include-accounts", "Only of these accounts, as user@host"),
        list("audit-log-exclude-accounts", "Not of these accounts"),
        list("audit-log-include-databases", "Only statements that concern these databases"),
        size("audit-log-rotate-on-size", "Put the file aside when it is as large"),
        size("audit-log-max-size", "Remove the oldest files when all are larger together"),
        size("audit-log-buffer-size", "Events that wait to be written; more are lost [1M]")
            .value_parser(buffer_size),
    ]
}

fn inspect() -> Command {
    Command::new("inspect")
        .about("Shows what is in the files of a data directory, and whether they are sound")
        .arg(
            Arg::new("path")
                .value_name("PATH")
                .help("Files, or directories with all that is below them")
                .value_parser(value_parser!(PathBuf))
                .num_args(1..)
                .required(true),
        )
        .arg(flag("all", "Show every record, slot and entry"))
        .args(keys())
}

/// Options that say where the master key of what is on disk comes from.
fn keys() -> [Arg; 2] {
    [
        option(
            "encryption-key-file",
            "FILE",
            "File with the master key of what is on disk [default: $NINES_ENCRYPTION_KEY]",
        )
        .value_parser(value_parser!(PathBuf)),
        option("encryption-key-command", "COMMAND", "Command that prints the master key")
            .conflicts_with("encryption-key-file"),
    ]
}

fn key_options(matches: &ArgMatches) -> KeyOptions {
    KeyOptions {
        file: matches.get_one::<PathBuf>("encryption-key-file").cloned(),
        command: matches.get_one::<String>("encryption-key-command").cloned(),
    }
}

/// Options that say where data is.
fn storage() -> [Arg; 4] {
    [
        option("dir", "DIR", "Keep data on disk, in this directory [default: in memory only]")
            .value_parser(value_parser!(PathBuf)),
        durability(),
        option("io", "ENGINE", "How files are written: auto, uring or threads")
            .value_parser(["auto", "uring", "threads"])
            .default_value("auto")
            .hide(true),
        // For measurements, and for tests that are to see much in little time.
        option("tune", "NAME=VALUE", "Limits of the redo log and of checkpoints")
            .value_parser(tuning)
            .action(ArgAction::Append)
            .hide(true),
    ]
}

fn durability() -> Arg {
    option("durability", "LEVEL", "What commits of sessions wait for: memory, or disk")
        .value_parser(["memory", "disk"])
        .default_value("memory")
}

fn is_durable(matches: &ArgMatches) -> bool {
    matches.get_one::<String>("durability").is_some_and(|level| level == "disk")
}

/// An option without a value.
fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn dev_options(matches: &ArgMatches) -> Result<DevOptions, String> {
    let (data_nodes, replicas) = shape(
        matches.get_one::<u16>("data-nodes").copied(),
        matches.get_one::<u8>("replicas").copied(),
    )?;
    let durable = is_durable(matches);
    if durable && !matches.contains_id("dir") {
        return Err("--durability disk needs a directory to keep data in; give --dir".into());
    }
    let keys = key_options(matches);
    let decrypt = matches.get_flag("decrypt");
    let about_keys = decrypt || keys.file.is_some() || keys.command.is_some();
    if about_keys && !matches.contains_id("dir") {
        return Err("a key is for data on disk; give --dir, too".into());
    }
    Ok(DevOptions {
        place: place_options(matches),
        data_nodes,
        replicas,
        workers: matches.get_one::<u8>("workers").copied(),
        data_memory: matches.get_one::<u64>("data-memory").copied(),
        query_memory: matches.get_one::<u64>("query-memory").copied(),
        shape_given: matches.contains_id("data-nodes") || matches.contains_id("replicas"),
        durable,
        keys,
        decrypt,
        disk_engine: match matches.get_one::<String>("io").map(String::as_str) {
            Some("uring") => DiskEngine::Uring,
            Some("threads") => DiskEngine::Threads,
            _ => DiskEngine::Auto,
        },
        http_port: matches.get_one::<u16>("http-port").copied(),
        tuning: matches.get_many::<Tuning>("tune").into_iter().flatten().copied().collect(),
    })
}

fn place_options(matches: &ArgMatches) -> PlaceOptions {
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    PlaceOptions {
        directory: path("dir"),
        temporary: path("temp-dir"),
        bind: matches.get_many::<String>("bind").into_iter().flatten().cloned().collect(),
        port: matches.get_one::<u16>("port").copied().expect("it has a default"),
        socket: path("socket"),
        tls: TlsOptions {
            settings: TlsSettings {
                certificate: path("tls-cert"),
                key: path("tls-key"),
                authority: path("tls-ca"),
                versions: text("tls-version").unwrap_or_default(),
                ciphers: text("tls-ciphers").unwrap_or_default(),
                suites: text("tls-ciphersuites"),
            },
            directory: path("tls-dir"),
            names: matches.get_many::<String>("tls-name").into_iter().flatten().cloned().collect(),
        },
        allow_insecure: matches.get_flag("allow-insecure"),
        native_password: matches.get_flag("mysql-native-password"),
        root: if matches.get_flag("initialize-insecure") {
            RootPassword::Never
        } else if matches.get_flag("reset-root-password") {
            RootPassword::Anew
        } else {
            RootPassword::AtFirst
        },
        audit: path("audit-log-file").map(|file| AuditOptions {
            file,
            buffer: match matches.get_one::<u64>("audit-log-buffer-size") {
                Some(size) => usize::try_from(*size).unwrap_or(usize::MAX),
                None => AUDIT_BUFFER,
            },
        }),
        files: path("secure-file-priv"),
        variables: variables(matches),
    }
}

/// First values of global variables that options of the same names give.
fn variables(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    for (option, variable) in
        [("require-secure-transport", "require_secure_transport"), ("local-infile", "local_infile")]
    {
        if matches.get_flag(option) {
            variables.push((variable, "ON".to_owned()));
        }
    }
    for (option, variable) in AUDIT_SIZES {
        let given = matches.get_one::<u64>(option);
        variables.extend(given.map(|size| (variable, size.to_string())));
    }
    for (option, variable) in AUDIT_TEXTS {
        let given: Vec<String> = matches.get_many(option).into_iter().flatten().cloned().collect();
        if !given.is_empty() {
            variables.push((variable, given.join(",")));
        }
    }
    if let Some(file) = matches.get_one::<PathBuf>("audit-log-file") {
        variables.push(("audit_log_file", file.display().to_string()));
    }
    variables
}

/// Options of the audit log that are sizes, and their variables.
const AUDIT_SIZES: [(&str, &str); 3] = [
    ("audit-log-buffer-size", "audit_log_buffer_size"),
    ("audit-log-max-size", "audit_log_max_size"),
    ("audit-log-rotate-on-size", "audit_log_rotate_on_size"),
];
/// Those that are texts.
const AUDIT_TEXTS: [(&str, &str); 6] = [
    ("audit-log-exclude-accounts", "audit_log_exclude_accounts"),
    ("audit-log-include-accounts", "audit_log_include_accounts"),
    ("audit-log-include-databases", "audit_log_include_databases"),
    ("audit-log-policy", "audit_log_policy"),
    ("audit-log-statements", "nines_audit_log_statements"),
    ("audit-log-strategy", "audit_log_strategy"),
];
/// Bytes of events that wait to be written, unless something is said; and at least.
const AUDIT_BUFFER: usize = 1 << 20;
const AUDIT_BUFFER_MIN: u64 = 4 << 10;

/// Numbers of data nodes and of replicas that go together; what is not given follows the other.
fn shape(data_nodes: Option<u16>, replicas: Option<u8>) -> Result<(u16, u8), String> {
    let nodes = data_nodes.unwrap_or(u16::from(replicas.unwrap_or(2)).max(2));
    let copies = replicas.unwrap_or(if nodes == 1 { 1 } else { 2 });
    if !nodes.is_multiple_of(u16::from(copies)) {
        return Err(format!(
            "{nodes} data nodes cannot be divided into groups of {copies} replicas; \
             choose --data-nodes and --replicas so that one divides the other"
        ));
    }
    Ok((nodes, copies))
}

/// A limit of the disk's side by its name.
fn tuning(text: &str) -> Result<Tuning, String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is needed")?;
    match name {
        "redo-segment" => Ok(Tuning::RedoSegment(bytes(value)?)),
        "checkpoint-speed" => Ok(Tuning::CheckpointSpeed(bytes(value)?)),
        "save-interval" => match value.parse() {
            Ok(milliseconds) => Ok(Tuning::SaveInterval(milliseconds)),
            Err(_) => Err("a save interval is a number of milliseconds".into()),
        },
        _ => Err("known are redo-segment, checkpoint-speed, save-interval".into()),
    }
}

/// The memory of a data node.
fn size(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    if size < DATA_MEMORY_MIN {
        return Err("a data node needs at least 16M".into());
    }
    Ok(size)
}

/// The memory of events that wait to be written.
fn buffer_size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        size if size < AUDIT_BUFFER_MIN => Err("events need at least 4K".into()),
        size => Ok(size),
    }
}

fn query_size(text: &str) -> Result<u64, String> {
    let size = bytes(text)?;
    if size < QUERY_MEMORY_MIN {
        return Err("statements need at least 16M together".into());
    }
    Ok(size)
}

/// A number of bytes with an optional unit.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number with K, M, G or T".into()),
    };
    let number: u64 = digits.parse().map_err(|_| "a size is a number with K, M, G or T")?;
    Ok(number.checked_mul(1 << shift).ok_or("that is more than any machine has")?)
}

/// Below this not even the records of a node without rows fit well.
const DATA_MEMORY_MIN: u64 = 16 << 20;

#[cfg(test)]
mod tests;
