//! What lines are taken for.

use super::*;

fn parsed(line: &str) -> What {
    parse(&cut(line)).unwrap_or_else(|why| panic!("{line}: {why}")).what
}

fn events(follow: bool, most: usize) -> What {
    What::Events { follow, most, level: Level::Info }
}

fn wrong(line: &str) -> String {
    match parse(&cut(line)) {
        Ok(order) => panic!("{line}: {order:?}"),
        Err(why) => why,
    }
}

#[test]
fn ndb_users_are_at_home() {
    let restart = |id| What::Restart {
        whom: Whom::Node(id),
        rolling: false,
        force: false,
        patience: PATIENCE,
    };
    let cases = [
        ("SHOW", What::Show),
        ("ALL STATUS", What::Status(None)),
        ("2 STATUS;", What::Status(Some(2))),
        ("2 RESTART", restart(2)),
        ("2 STOP", What::Stop { whom: Whom::Node(2), force: false }),
        ("2 stop -f", What::Stop { whom: Whom::Node(2), force: true }),
        ("ALL STOP", What::Stop { whom: Whom::DataNodes, force: false }),
        ("ALL REPORT MEMORY", What::Memory(None)),
        ("all report MemoryUsage", What::Memory(None)),
        ("3 REPORT Memory", What::Memory(Some(3))),
        ("ALL REPORT EVENTLOG", events(false, 50)),
        ("SHUTDOWN", What::Stop { whom: Whom::Everything, force: false }),
        ("HELP SHOW", What::Help(Some("show".into()))),
        ("EXIT", What::Quit),
        ("BYE", What::Quit),
    ];
    for (line, what) in cases {
        assert_eq!(parsed(line), what, "{line}");
    }
}

#[test]
fn plain_orders() {
    let patience = Duration::from_secs(30);
    let everything = Whom::Everything;
    let cases = [
        ("", What::Nothing),
        ("  # nothing", What::Nothing),
        ("show # all", What::Show),
        ("show survivability", What::Survivability),
        ("show groups", What::Groups),
        ("survivability", What::Survivability),
        ("rotate-keys", What::RotateKeys(None)),
        ("Rotate-Keys 3", What::RotateKeys(Some(3))),
        ("status", What::Status(None)),
        ("status 3", What::Status(Some(3))),
        ("memory 4", What::Memory(Some(4))),
        ("transactions", What::Transactions),
        ("locks", What::Locks),
        ("config", What::Config(config::Order::Show)),
        ("Config HISTORY;", What::Config(config::Order::History)),
        ("config diff /A", What::Config(config::Order::Diff("/A".into()))),
        ("version", What::Version),
        ("upgrade status", What::Upgrade(upgrade::Order::Look)),
        ("Upgrade Finalize;", What::Upgrade(upgrade::Order::Finalize)),
        ("upgrade --timeout 30", What::Upgrade(upgrade::Order::Run { force: false, patience })),
        ("help", What::Help(None)),
        ("quit", What::Quit),
        ("events", events(false, 50)),
        ("events --follow -n 5", events(true, 5)),
        ("events -n5 -f", events(true, 5)),
        ("stop 2 --force", What::Stop { whom: Whom::Node(2), force: true }),
        ("stop --force 2", What::Stop { whom: Whom::Node(2), force: true }),
        ("stop all", What::Stop { whom: Whom::DataNodes, force: false }),
        (
            "restart all --rolling --timeout=30",
            What::Restart { whom: everything, rolling: true, force: false, patience },
        ),
        (
            "restart --rolling all --timeout 30",
            What::Restart { whom: everything, rolling: true, force: false, patience },
        ),
    ];
    for (line, what) in cases {
        // An option's value stands behind it, which is why `all` is looked for first.
        assert_eq!(parsed(line), what, "{line}");
    }
}

#[test]
fn levels_of_events() {
    let level = Level::Warning;
    assert_eq!(parsed("events --level WARNING"), What::Events { follow: false, most: 50, level });
}

#[test]
fn json_stands_anywhere() {
    for line in ["show --json", "--json show", "ALL STATUS --json", "2 --json STATUS"] {
        assert!(parse(&cut(line)).unwrap().json, "{line}");
    }
    assert!(!parse(&cut("show")).unwrap().json);
    assert!(wrong("stop 2 --json").contains("only read"));
}

#[test]
fn garbage_is_told_by_name() {
    let cases = [
        ("shwo", "did you mean `show`?"),
        ("survivabilty", "did you mean `survivability`?"),
        ("restart all --roling", "too much after `restart`; did you mean --rolling?"),
        ("stop 2 --froce", "did you mean --force?"),
        ("dance", "`dance` is not an order; see `help`"),
        ("show dance", "`dance` is not an order"),
        ("2", "what about 2?"),
        ("2 dance", "`dance` is not an order"),
        ("0 status", "`0` is not an order"),
        ("-1 status", "`-1` is not an order"),
        ("65536 status", "`65536` is not an order"),
        ("stop", "stop whom?"),
        ("stop me", "stop whom?"),
        ("restart --rolling", "restart whom?"),
        ("restart all", "restart all --rolling"),
        ("ALL RESTART", "restart all --rolling"),
        ("upgrade 3", "`3` is too much"),
        ("config set", "set what?"),
        ("config shwo", "`config shwo` is not an order"),
        ("2 restart -i", "`restart -i` is not available"),
        ("2 stop -a", "`stop -a` is not available"),
        ("stop 2 3", "`3` is too much"),
        ("restart 2 --timeout", "--timeout needs"),
        ("restart 2 --timeout 0", "--timeout needs"),
        ("restart 2 --timeout soon", "--timeout needs"),
        ("show me", "`me` is not an order"),
        ("locks 3", "`3` is too much"),
        ("status x", "`x` is no node id"),
        ("events x", "`x` is too much"),
        ("events -n", "too much"),
        ("events -n many", "not `many`"),
        ("events --level loud", "--level needs"),
        ("events --level", "--level needs"),
        ("all report", "report what?"),
        ("all report backupstatus", "`report backupstatus` is not available"),
        ("START BACKUP SNAPSHOTEND", "SNAPSHOTSTART"),
        ("abort", "`abort` is not an order"),
        ("2 START", "`nines data -c HOST`"),
        ("ENTER SINGLE USER MODE 5", "single user mode"),
        ("EXIT SINGLE USER MODE", "single user mode"),
        ("ALL DUMP 1000", "schema `nines`"),
        ("CLUSTERLOG INFO", "events --level"),
        ("\u{feff}\0 \u{1f600}", "is not an order"),
    ];
    for (line, part) in cases {
        let why = wrong(line);
        assert!(why.contains(part) && !why.contains('\n'), "{line}: {why}");
    }
}

#[test]
fn every_word_has_its_help() {
    for word in &WORDS {
        assert!(word.usage.starts_with(word.name), "{}", word.name);
        let line = match word.name {
            "stop" => "stop 1".to_string(),
            "restart" => "restart 1".to_string(),
            "start" | "abort" => format!("{} backup 1", word.name),
            "accept-loss" => "accept-loss 1".to_string(),
            "create" => "create nodegroup 3,4".to_string(),
            "drop" => "drop nodegroup 1".to_string(),
            "drain" => "drain 1".to_string(),
            "token" | "certificates" => format!("{} list", word.name),
            name => name.to_string(),
        };
        assert!(parse(&cut(&line)).is_ok(), "{line}");
    }
}
