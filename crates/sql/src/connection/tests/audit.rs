//! What connections and statements tell the audit log.

use std::sync::Mutex;

use serde_json::Value;

use super::*;
use crate::audit::{AuditFigures, AuditLimits, AuditLog, Kept};

/// A log in memory, which keeps those who wait waiting for some looks.
#[derive(Debug, Default)]
struct Log {
    events: Mutex<Vec<(String, Kept)>>,
    patience: Mutex<usize>,
    limits: Mutex<AuditLimits>,
    flushes: Mutex<usize>,
}

impl AuditLog for Log {
    fn write(&self, event: &str, kept: Kept) -> u64 {
        let mut events = self.events.lock().unwrap();
        events.push((event.to_owned(), kept));
        events.len() as u64
    }

    fn has_reached(&self, number: u64, _: Kept) -> bool {
        assert_eq!(number, self.events.lock().unwrap().len() as u64);
        let mut patience = self.patience.lock().unwrap();
        *patience = patience.saturating_sub(1);
        *patience == 0
    }

    fn flush(&self) {
        *self.flushes.lock().unwrap() += 1;
    }

    fn limit(&self, limits: AuditLimits) {
        *self.limits.lock().unwrap() = limits;
    }

    fn figures(&self) -> AuditFigures {
        AuditFigures { written: 7, lost: 2, ..AuditFigures::default() }
    }
}

impl Log {
    /// The events since this was asked last, each as few words.
    fn told(&self) -> Vec<String> {
        let events = mem::take(&mut *self.events.lock().unwrap());
        events.iter().map(|(event, _)| short(event)).collect()
    }
}

fn short(event: &str) -> String {
    assert!(!event.contains("S3cret"), "{event}");
    let event: Value = serde_json::from_str(&format!("{{{event}}}")).expect("it is JSON");
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (login, account) = (&event["login"]["user"], &event["account"]);
    let who = format!("{}/{}@{}", text(login), text(&account["user"]), text(&account["host"]));
    if event["class"] == "connection" {
        let data = &event["connection_data"];
        let (kind, status) = (text(&data["connection_type"]), text(&data["status"]));
        return format!("{} {who} {kind} {status}", text(&event["event"]));
    }
    let data = &event["general_data"];
    let (class, command) = (text(&data["statement_class"]), text(&data["sql_command"]));
    format!("{class} {command} {who} {} {}", text(&data["status"]), text(&data["query"]))
}

fn audited() -> (Arc<Log>, World) {
    let log = Arc::new(Log::default());
    let admission = Admission { audit: Some(log.clone()), ..Admission::default() };
    (log, world_of(admission, ClusterState::default()))
}

fn root(world: &World) -> Client {
    let mut client = Client::connect(world, 1, UNIX);
    client.log_in(UTF8, b"root", b"", b"");
    assert_eq!(client.packet()[0], 0);
    client
}

#[test]
fn connections_and_statements_are_told() {
    let (log, world) = audited();
    let mut client = Client::connect(&world, 1, tcp("192.0.2.1", false));
    client.refusal();
    assert_eq!(log.told(), ["connect /@ tcp/ip 1130"]);
    let mut client = Client::connect(&world, 2, tcp("127.0.0.1", true));
    client.log_in(UTF8, b"nobody", b"", b"");
    client.refusal();
    assert_eq!(log.told(), ["connect nobody/@ tcp/ip 1045"]);
    let mut client = root(&world);
    assert_eq!(log.told(), ["connect root/root@localhost socket 0"]);
    client.query("SELECT 1");
    client.query("SELECT FROM 'S3cret'");
    client.query("SET @a = 'CREATE USER u IDENTIFIED BY ''S3cret'''");
    assert_eq!(
        log.told(),
        [
            "read select root/root@localhost 0 SELECT 1",
            "administration error root/root@localhost 1064 ",
            "administration set_option root/root@localhost 0 SET @a = <secret>",
        ]
    );
    client.query("ALTER USER nobody IDENTIFIED BY 'S3cret'");
    let told = log.told();
    assert!(told[0].starts_with("account alter_user root/root@localhost "), "{told:?}");
    assert!(told[0].ends_with(" ALTER USER 'nobody' IDENTIFIED BY <secret>"), "{told:?}");
    client.query("PREPARE s FROM 'SELECT 2'");
    client.query("EXECUTE s");
    assert_eq!(
        log.told(),
        [
            "administration prepare_sql root/root@localhost 0 PREPARE `s` FROM 'SELECT 2'",
            "read select root/root@localhost 0 SELECT 2",
            "administration execute_sql root/root@localhost 0 EXECUTE s",
        ]
    );
    // COM_RESET_CONNECTION is no end; that of the connection is one.
    assert_eq!(client.command(&[31])[0], 0);
    assert!(log.told().is_empty());
    let status = client.query("SHOW STATUS LIKE 'Audit_log_events_lost'");
    assert!(status.contains("Audit_log_events_lost\u{1}2"), "{status}");
    log.told();
    drop(client);
    assert_eq!(log.told(), ["disconnect root/root@localhost socket 0"]);
}

#[test]
fn what_is_told_follows_the_variables() {
    let (log, world) = audited();
    let mut client = root(&world);
    log.told();
    client.query("SET GLOBAL audit_log_rotate_on_size = 4096");
    client.query("SET GLOBAL nines_audit_log_statements = 'WRITE,DEFINITION'");
    // What held when it began holds for a statement, and not for the next one.
    assert_eq!(log.told().len(), 2);
    client.query("SELECT 1");
    assert_eq!(log.limits.lock().unwrap().rotate_on_size, 4_096);
    client.query("DELETE FROM nowhere.t");
    let told = log.told();
    assert!(told.len() == 1 && told[0].starts_with("write delete root"), "{told:?}");
    client.query("SET GLOBAL nines_audit_log_statements = DEFAULT");
    client.query("SET GLOBAL audit_log_include_databases = 'shop'");
    log.told();
    client.query("SELECT 1");
    client.query("SELECT 'shop'");
    assert_eq!(log.told(), ["read select root/root@localhost 0 SELECT 'shop'"]);
    client.query("SET GLOBAL audit_log_include_databases = ''");
    client.query("SET GLOBAL audit_log_exclude_accounts = 'root@localhost'");
    log.told();
    client.query("SELECT 1");
    assert!(log.told().is_empty());
    // Those who are refused have no account.
    let mut other = Client::connect(&world, 3, UNIX);
    other.log_in(UTF8, b"nobody", b"", b"");
    other.refusal();
    assert_eq!(log.told(), ["connect nobody/@ socket 1045"]);
    client.query("SET GLOBAL audit_log_exclude_accounts = ''");
    client.query("SET GLOBAL audit_log_policy = LOGINS");
    log.told();
    client.query("SELECT 1");
    assert!(log.told().is_empty());
    client.query("SET GLOBAL audit_log_flush = ON");
    let shown = client.query("SELECT @@audit_log_flush");
    assert!(*log.flushes.lock().unwrap() == 1 && shown.contains("\u{1}0"), "{shown}");
}

#[test]
fn a_statement_waits_for_its_event_if_it_is_to() {
    let (log, world) = audited();
    let mut client = root(&world);
    client.query("SET GLOBAL audit_log_strategy = SYNCHRONOUS");
    log.told();
    *log.patience.lock().unwrap() = 5;
    let before = client.pauses;
    client.query("SELECT 1");
    assert_eq!((client.pauses - before, *log.patience.lock().unwrap()), (4, 0));
    assert_eq!(log.events.lock().unwrap()[0].1, Kept::Synced);
}

#[test]
fn passwords_are_not_in_the_list_of_processes() {
    let world = world();
    let mut client = root(&world);
    let statement = b"\x03ALTER USER nobody IDENTIFIED BY 'S3cret'";
    let header = (statement.len() as u32).to_le_bytes();
    client.link.borrow_mut().received.extend_from_slice(&header);
    client.link.borrow_mut().received.extend_from_slice(statement);
    // It waits for the cluster.
    let mut context = Context::from_waker(Waker::noop());
    assert!(client.task.as_mut().poll(&mut context).is_pending());
    let text = world.directory.lock().processes()[0].info.clone();
    assert_eq!(text, "ALTER USER 'nobody' IDENTIFIED BY <secret>");
}

#[test]
fn so_many_connections_as_an_account_may_have() {
    let world = world();
    let mut client = root(&world);
    client.query("SET GLOBAL max_user_connections = 1");
    let mut other = Client::connect(&world, 2, UNIX);
    other.log_in(UTF8, b"root", b"", b"");
    let text = "1203 #42000User root already has more than 'max_user_connections' active \
                connections";
    assert_eq!(other.refusal(), text);
    // A reset leaves no place behind.
    assert_eq!(client.command(&[31])[0], 0);
    drop(client);
    let mut client = root(&world);
    assert!(client.query("SELECT 'there'").contains("there"));
}

#[test]
fn lost_events_are_a_metric() {
    let auditor = crate::audit::Auditor::new(Arc::new(Log::default()));
    let mut figures = actor::Figures::default();
    crate::audit::tell(Some(&auditor), &mut figures);
    let told: Vec<(String, String, u64)> = figures.rows();
    // The host puts the node in, which is the first label.
    let of = |outcome: &str, number: u64| {
        ("nines_sql_audit_events".to_owned(), format!(",{outcome}"), number)
    };
    assert_eq!(told, [of("lost", 2), of("written", 7)]);
    let mut none = actor::Figures::default();
    crate::audit::tell(None, &mut none);
    assert!(none.rows().is_empty());
}
