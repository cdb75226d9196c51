//! What command lines are taken for.

use super::*;

fn parsed(line: &str) -> Parsed {
    parse(line.split_whitespace().map(OsString::from))
}

fn options(line: &str) -> DevOptions {
    match parsed(line) {
        Parsed::Dev(options) => *options,
        Parsed::Text(text) | Parsed::Wrong(text) => panic!("{text}"),
        _ => panic!("{line} asks for something else"),
    }
}

fn wrong(line: &str) -> String {
    match parsed(line) {
        Parsed::Wrong(why) => why,
        Parsed::Text(text) => panic!("{text}"),
        Parsed::Dev(options) => panic!("{options:?}"),
        _ => panic!("{line} asks for something else"),
    }
}

#[test]
fn nothing_is_mandatory() {
    let options = options("nines dev");
    assert_eq!((options.data_nodes, options.replicas, options.place.port), (2, 2, 3306));
    assert_eq!(options.place.bind, ["localhost"]);
    assert!(
        options.place.directory.is_none()
            && options.place.tls.settings == TlsSettings::default()
            && !options.place.allow_insecure
    );
    assert!(!options.shape_given && !options.durable);
    assert_eq!(options.disk_engine, DiskEngine::Auto);
}

#[test]
fn options_in_both_forms() {
    let options = options(
        "nines dev --port=3307 --bind 127.0.0.1,::1 --bind=10.0.0.1 --dir /tmp/x --workers 3 \
         --data-memory 512M --query-memory 32M --tls-cert c --tls-key k --durability disk \
         --require-secure-transport --mysql-native-password --tls-version=TLSv1.3 \
         --tls-ciphersuites s \
         --io threads --replicas 1 \
         --tune redo-segment=1M --tune=save-interval=50",
    );
    assert_eq!(options.tuning, [Tuning::RedoSegment(1 << 20), Tuning::SaveInterval(50)]);
    assert!(options.durable && options.shape_given);
    assert_eq!(options.disk_engine, DiskEngine::Threads);
    assert_eq!((options.place.port, options.workers), (3307, Some(3)));
    assert_eq!(options.place.bind, ["127.0.0.1", "::1", "10.0.0.1"]);
    assert_eq!(options.data_memory, Some(512 << 20));
    assert_eq!(options.query_memory, Some(32 << 20));
    let settings = &options.place.tls.settings;
    let files = (settings.certificate.clone(), settings.key.clone());
    assert_eq!(files, (Some("c".into()), Some("k".into())));
    assert_eq!(options.place.variables, [("require_secure_transport", "ON".to_owned())]);
    assert!(options.place.native_password && options.place.root == RootPassword::AtFirst);
    assert_eq!((settings.versions.as_str(), settings.suites.as_deref()), ("TLSv1.3", Some("s")));
}

#[test]
fn an_audit_log_is_kept_as_asked_for() {
    let options = options(
        "nines dev --initialize-insecure --local-infile --audit-log-file=a.log \
         --audit-log-strategy=SYNCHRONOUS --audit-log-statements=ACCOUNT,DEFINITION \
         --audit-log-include-accounts=a@b --audit-log-include-accounts=c@d \
         --audit-log-rotate-on-size=1M --audit-log-buffer-size=64K",
    );
    let audit = options.place.audit.expect("it is asked for");
    assert_eq!((audit.file, audit.buffer), (PathBuf::from("a.log"), 64 << 10));
    assert_eq!(options.place.root, RootPassword::Never);
    let given: Vec<String> =
        options.place.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        given,
        [
            "local_infile=ON",
            "audit_log_buffer_size=65536",
            "audit_log_rotate_on_size=1048576",
            "audit_log_include_accounts=a@b,c@d",
            "nines_audit_log_statements=ACCOUNT,DEFINITION",
            "audit_log_strategy=SYNCHRONOUS",
            "audit_log_file=a.log",
        ]
    );
}

#[test]
fn nodes_and_replicas_follow_each_other() {
    let shape = |line| {
        let options = options(line);
        (options.data_nodes, options.replicas)
    };
    assert_eq!(shape("nines dev --data-nodes 1"), (1, 1));
    assert_eq!(shape("nines dev --data-nodes 4"), (4, 2));
    assert_eq!(shape("nines dev --replicas 1"), (2, 1));
    assert_eq!(shape("nines dev --replicas 3"), (3, 3));
    assert_eq!(shape("nines dev --data-nodes 6 --replicas 3"), (6, 3));
}

#[test]
fn an_error_is_one_line_that_names_the_option() {
    let cases = [
        ("nines dev --data-nodes=3", "3 data nodes cannot be divided into groups of 2 replicas"),
        ("nines dev --data-nodes=0", "--data-nodes"),
        ("nines dev --data-nodes=49", "--data-nodes"),
        ("nines dev --replicas=5", "--replicas"),
        ("nines dev --replicas=0", "--replicas"),
        ("nines dev --workers=0", "--workers"),
        ("nines dev --port=65536", "--port"),
        ("nines dev --port", "--port"),
        ("nines dev --no-such-option", "--no-such-option"),
        ("nines dev --data-memory=1", "--data-memory"),
        ("nines dev --query-memory=1M", "--query-memory"),
        ("nines dev --data-memory=1X", "--data-memory"),
        ("nines dev --data-memory=99999999T", "--data-memory"),
        ("nines dev --tls-cert=c", "--tls-key"),
        ("nines dev --durability=disk", "give --dir"),
        ("nines dev --initialize-insecure --reset-root-password", "--reset-root-password"),
        ("nines dev --audit-log-file=x --audit-log-buffer-size=1K", "4K"),
        ("nines dev --audit-log-policy=ALL", "--audit-log-file"),
        ("nines dev --audit-log-file=x --audit-log-policy=SOME", "--audit-log-policy"),
        ("nines dev --audit-log-file=x --audit-log-statements=READ,X", "--audit-log-statements"),
        ("nines dev --dir=x --durability=paper", "--durability"),
        ("nines dev --io=tape", "--io"),
        ("nines dev --tune=speed=1", "--tune"),
        ("nines dev --tune=redo-segment", "--tune"),
        ("nines dev --tune=save-interval=1s", "--tune"),
        ("nines dev surplus", "surplus"),
        ("nines nonsense", "nonsense"),
        ("nines config", "subcommand"),
        ("nines config check", "<FILE>"),
        ("nines config parameters --json --markdown", "--markdown"),
        ("nines ctl -c a:b show", "a:b"),
        ("nines top -c a:b", "a:b"),
        ("nines top --interval 0", "0"),
        ("nines dev --http-port 70000", "70000"),
    ];
    for (line, part) in cases {
        let why = wrong(line);
        assert!(why.contains(part) && !why.contains('\n'), "{line}: {why}");
    }
}

#[test]
fn what_was_nearly_right_is_named() {
    let cases = [
        ("nines dve", "did you mean `dev`?"),
        ("nines managment -f x", "did you mean `management`?"),
        ("nines config chekc x", "did you mean `check`?"),
        ("nines dev --prot 3307", "did you mean `--port`?"),
        ("nines dev --replica=2", "did you mean `--replicas`?"),
        ("nines data --node_id 2", "did you mean `--node-id`?"),
        ("nines config check --sicne a b", "did you mean `--since`?"),
        ("nines inspect --al x", "did you mean `--all`?"),
        ("nines nonsense", "see `nines --help`"),
        ("nines dev --no-such-option", "see `nines --help`"),
        // An option that is not in the help is not proposed either.
        ("nines dev --tunes=x", "see `nines --help`"),
    ];
    for (line, part) in cases {
        let why = wrong(line);
        assert!(why.ends_with(part) && !why.contains('\n'), "{line}: {why}");
    }
}

#[test]
fn help_is_text() {
    for line in ["nines", "nines --help", "nines dev --help", "nines help dev", "nines --version"] {
        assert!(matches!(parsed(line), Parsed::Text(_)), "{line}");
    }
}

#[test]
fn files_to_inspect() {
    let Parsed::Inspect(options) = parsed("nines inspect --all a b/c") else { panic!() };
    assert!(options.all);
    assert_eq!(options.paths, [PathBuf::from("a"), PathBuf::from("b/c")]);
    assert!(wrong("nines inspect").contains("<PATH>"));
}

#[test]
fn orders_for_ctl() {
    let order = |line: &str| match parsed(line) {
        Parsed::Ctl(options) => (options.json, options.words.join(" ")),
        _ => panic!("{line}"),
    };
    assert_eq!(order("nines ctl"), (false, String::new()));
    assert!(matches!(parsed("nines ctl show"), Parsed::Ctl(options) if options.connect.is_none()));
    assert_eq!(order("nines ctl -c a,b:1 --json show"), (true, "show".into()));
    assert_eq!(order("nines ctl show --json"), (false, "show --json".into()));
    assert_eq!(order("nines ctl restart all --rolling"), (false, "restart all --rolling".into()));
    assert_eq!(order("nines mgm 2 STOP -f"), (false, "2 STOP -f".into()));
}

#[test]
fn sizes() {
    let cases = [("16777216", 16 << 20), ("64m", 64 << 20), ("2GB", 2 << 30), ("1GiB", 1 << 30)];
    for (text, bytes) in cases {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
}

#[test]
fn a_cluster_is_watched() {
    let Parsed::Top(options) = parsed("nines top") else { panic!("top is known") };
    assert_eq!((options.once, options.json, options.interval), (false, false, 2));
    let Parsed::Top(options) = parsed("nines top -c m1:1186,m2 --once --json -i 5") else {
        panic!("top is known");
    };
    assert_eq!((options.once, options.json, options.interval), (true, true, 5));
    assert_eq!(self::options("nines dev").http_port, None);
    assert_eq!(self::options("nines dev --http-port=0").http_port, Some(0));
}
