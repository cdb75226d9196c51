//! Nodes that join by tokens, operators with certificates, and those that have neither: clusters on
//! hosts of their own, the first of them set up from the manual, word for word.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tests::cluster::{Layout, MANAGEMENT, Processes, SMALL, SQL, host_of};
use tests::network::{Family, Network};
use tests::{all, binary, number, run, temporary_directory, text_of, workspace};

use super::hosts::say;
use super::processes::open;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where a node listens that is alone on its host.
const MANAGEMENT_HOST: u8 = MANAGEMENT as u8;
const SQL_HOST: u8 = SQL as u8;

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}: it does not happen");
        thread::sleep(Duration::from_millis(100));
    }
}

/// What a program says, on both ways.
fn words_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// A cluster on hosts whose nodes have nothing yet but their configuration, which trusts nobody.
fn bare(name: &str, layout: Layout, more: &str) -> Option<Processes> {
    let mut cluster = match Processes::prepare_on_hosts(layout, |_| Family::V4) {
        Ok(cluster) => cluster,
        Err(why) => {
            say(&format!("skipped: {name}: {why}"));
            return None;
        }
    };
    let certificates = cluster.directory().join("certificates");
    cluster.use_certificates(&certificates);
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    let text = text.replace("[ndb_mgmd default]\n", &format!("[ndb_mgmd default]\n{more}\n"));
    fs::write(&file, text).expect("the directory is writable");
    Some(cluster)
}

/// Runs `nines` on a host, with a home of its own.
fn nines(cluster: &mut Processes, host: u8, arguments: &[&str]) -> Output {
    let home = cluster.directory().join(format!("home-{host}"));
    fs::create_dir_all(&home).expect("the directory is writable");
    let network = cluster.network().expect("it was started on hosts");
    let mut program = network.command(host, binary());
    program.env("HOME", &home).env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    program.args(arguments).current_dir(home);
    run(program)
}

/// Where the first management node is.
fn management(cluster: &Processes) -> String {
    format!("{}:{}", cluster.address(MANAGEMENT), cluster.port(MANAGEMENT))
}

/// An order on a host, as `nines ctl` there.
fn ctl(cluster: &mut Processes, host: u8, order: &[&str]) -> Output {
    let at = management(cluster);
    let arguments: Vec<&str> = ["ctl", "-c", &at].iter().chain(order).copied().collect();
    nines(cluster, host, &arguments)
}

/// An order on the host of the management node, which must succeed.
#[track_caller]
fn order(cluster: &mut Processes, words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    let output = ctl(cluster, MANAGEMENT_HOST, &words);
    text_of(&output, &words.join(" "))
}

/// A token that the management node makes.
#[track_caller]
fn token(cluster: &mut Processes, more: &str) -> String {
    order(cluster, &format!("token create {more}")).trim().to_owned()
}

/// Starts the management node, and the others each with a token of its own.
fn join_all(cluster: &mut Processes) {
    cluster.launch(MANAGEMENT);
    until("an authority", || ctl(cluster, MANAGEMENT_HOST, &["token", "list"]).status.success());
    for node in cluster.nodes().filter(|node| *node != MANAGEMENT).collect::<Vec<u16>>() {
        let role = match node {
            SQL.. => "sql",
            MANAGEMENT.. => "management",
            _ => "data",
        };
        let token = token(cluster, &format!("--role {role} --node {node}"));
        cluster.launch_with(node, &["--join", &token]);
    }
    for node in cluster.nodes().collect::<Vec<u16>>() {
        cluster.wait_until_ready(node);
    }
}

/// Tries to join as a data node from a host; what comes of it. Nobody may get in this way.
#[track_caller]
fn refused(cluster: &mut Processes, host: u8, token: &str) -> String {
    let at = management(cluster);
    let directory = cluster.directory().join("rogue").display().to_string();
    let arguments = ["data", "-c", &at, "--node-id=2", "--tls-dir", &directory, "--join", token];
    let output = nines(cluster, host, &arguments);
    assert!(!output.status.success(), "{}", words_of(&output));
    assert!(!Path::new(&directory).join("node-cert.pem").exists(), "it has got a certificate");
    words_of(&output)
}

#[test]
fn tokens_that_are_good_for_nothing() {
    let layout = Layout { sql: 1, ..SMALL };
    let Some(mut cluster) = bare("tokens", layout, "") else { return };
    cluster.launch(MANAGEMENT);
    until("an authority", || {
        ctl(&mut cluster, MANAGEMENT_HOST, &["token", "list"]).status.success()
    });
    let first = token(&mut cluster, "--role data");
    // What was made survives its maker.
    cluster.kill(&[MANAGEMENT]);
    cluster.launch(MANAGEMENT);
    until("an answer", || ctl(&mut cluster, MANAGEMENT_HOST, &["token", "list"]).status.success());
    cluster.launch_with(1, &["--join", &first]);
    until("node 1 joins", || cluster.log(1).contains("has joined as data node 1"));
    // Replayed, from another host and from the same.
    for host in [2, 1] {
        let told = refused(&mut cluster, host, &first);
        assert!(told.contains("has been used, for data node 1: each is good once"), "{told}");
    }
    let short = token(&mut cluster, "--role data --valid 1");
    thread::sleep(Duration::from_millis(2_100));
    let told = refused(&mut cluster, 2, &short);
    assert!(told.contains("has expired"), "{told}");
    let good = token(&mut cluster, "--role data --node 2");
    let parts: Vec<&str> = good.split('-').collect();
    let [prefix, role, authority, id, secret] = parts[..] else { panic!("{good}") };
    // Somebody else answers than who made the token.
    let other = format!("{prefix}-{role}-{}-{id}-{secret}", authority.replace(['0', '1'], "f"));
    let told = refused(&mut cluster, 2, &other);
    assert!(told.contains("not of authority") && told.contains("somebody is in between"), "{told}");
    let guessed = format!("{prefix}-{role}-{authority}-{id}-{}", "0".repeat(32));
    let told = refused(&mut cluster, 2, &guessed);
    assert!(told.contains("is wrong"), "{told}");
    let sql = token(&mut cluster, "--role sql");
    let told = refused(&mut cluster, 2, &sql);
    assert!(told.contains("the token is for the role sql"), "{told}");
    // Nor does the management node believe what a token says of itself.
    let told = refused(&mut cluster, 2, &sql.replace("-sql-", "-data-"));
    assert!(told.contains("is for the role sql, not data"), "{told}");
    let gone = token(&mut cluster, "--role data --node 2");
    order(&mut cluster, &format!("token revoke {gone}"));
    let told = refused(&mut cluster, 2, &gone);
    assert!(told.contains("has been revoked"), "{told}");
    let list = order(&mut cluster, "token list");
    for state in ["used", "expired", "good", "revoked"] {
        assert!(list.contains(state), "{list}");
    }
    // The good one is as good as before, and so is the cluster.
    cluster.launch_with(2, &["--join", &good]);
    cluster.launch_with(SQL, &["--join", &sql]);
    cluster.start_all();
    all(&mut open(&cluster, SQL), &["CREATE DATABASE d"]);
}

#[test]
fn a_node_that_other_hosts_reach_does_not_start_without_a_certificate() {
    let layout = Layout { management: 2, sql: 0, ..SMALL };
    let Some(mut cluster) = bare("without a certificate", layout, "") else { return };
    // A data node on the host of the first management node is told its configuration as its user.
    let (own, port) = (cluster.address(1).to_string(), cluster.port(1));
    let address = cluster.address(MANAGEMENT).to_string();
    let at = |host: &str, port: u16| format!("HostName={host}\nServerPort={port}\n");
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    let text = text.replace(&at(&own, port), &at(&address, port + 1));
    assert!(text.contains(&at(&address, port + 1)), "{text}");
    fs::write(&file, text).expect("the directory is writable");
    cluster.launch(MANAGEMENT);
    until("an authority", || {
        ctl(&mut cluster, MANAGEMENT_HOST, &["token", "list"]).status.success()
    });
    let reason = "which other hosts can reach, and has no certificate for its links: give it one \
                  (`nines ctl token create`, or TlsAuthority, TlsCertificate and TlsKey), or set \
                  AllowInsecure=1";
    let at = management(&cluster);
    let place = cluster.directory().join("nobody").display().to_string();
    let data = ["data", "-c", &at, "--node-id=1", "--tls-dir", &place];
    let output = nines(&mut cluster, MANAGEMENT_HOST, &data);
    let told = words_of(&output);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains(&format!("node 1 listens on {address}, {reason}")), "{told}");
    // The first management node makes an authority. Another one has to be given a certificate.
    let second = MANAGEMENT + 1;
    let (id, address) = (format!("--node-id={second}"), cluster.address(second));
    let file = file.display().to_string();
    let other = ["management", "-f", &file, &id, "--tls-dir", &place];
    let output = nines(&mut cluster, host_of(second), &other);
    let told = words_of(&output);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains(&format!("node {second} listens on {address}, {reason}")), "{told}");
    assert!(!Path::new(&place).join("node-cert.pem").exists());
}

#[test]
fn orders_from_other_hosts_need_a_certificate() {
    let layout = Layout { sql: 1, ..SMALL };
    let Some(mut cluster) = bare("operators", layout, "") else { return };
    join_all(&mut cluster);
    let needed = "it takes a certificate of an operator";
    for words in [&["show"][..], &["stop", "2"], &["token", "create", "--role", "ctl"], &["config"]]
    {
        let output = ctl(&mut cluster, 1, words);
        let told = words_of(&output);
        assert!(!output.status.success() && told.contains(needed), "{words:?}: {told}");
    }
    // A data node is not asked behind the management node's back.
    let at = format!("{}:{}", cluster.address(2), cluster.port(2));
    let told = words_of(&nines(&mut cluster, 1, &["ctl", "-c", &at, "version"]));
    assert!(told.contains(needed), "{told}");
    // A certificate that is carried there.
    let directory = cluster.directory().join("ann");
    let place = directory.display().to_string();
    order(&mut cluster, &format!("certificates create-operator Ann --out {place}"));
    let mode = fs::metadata(directory.join("node-key.pem")).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let at = management(&cluster);
    let as_ann = |cluster: &mut Processes, words: &[&str]| {
        let given = ["ctl", "-c", &at, "--tls-dir", &place];
        nines(cluster, 1, &given.iter().chain(words).copied().collect::<Vec<_>>())
    };
    let shown = text_of(&as_ann(&mut cluster, &["show"]), "show");
    assert!(shown.contains("Cluster") && shown.contains("is serving"), "{shown}");
    text_of(&as_ann(&mut cluster, &["restart", "2"]), "restart 2");
    // A token does the same, and is kept where `nines ctl` looks for it.
    let token = token(&mut cluster, "--role ctl");
    text_of(&ctl(&mut cluster, 2, &["--join", &token, "status"]), "join");
    text_of(&ctl(&mut cluster, 2, &["status"]), "status");
    // The certificate of a node is no operator's.
    let of_node = cluster.directory().join(format!("certificates/node-{SQL}"));
    let of_node = of_node.display().to_string();
    let told = words_of(&nines(
        &mut cluster,
        SQL_HOST,
        &["ctl", "-c", &at, "--tls-dir", &of_node, "show"],
    ));
    assert!(told.contains("that of sql node 51"), "{told}");
    // Others than their owner may read the key.
    fs::set_permissions(directory.join("node-key.pem"), fs::Permissions::from_mode(0o644))
        .expect("it is ours");
    let told = words_of(&as_ann(&mut cluster, &["show"]));
    assert!(told.contains("chmod 600"), "{told}");
    fs::set_permissions(directory.join("node-key.pem"), fs::Permissions::from_mode(0o600))
        .expect("it is ours");
    // One that was revoked is of no use at once.
    order(&mut cluster, "certificates revoke operator Ann");
    let output = as_ann(&mut cluster, &["show"]);
    let told = words_of(&output);
    assert!(!output.status.success() && told.contains("revoked"), "{told}");
    let list = order(&mut cluster, "certificates list");
    assert!(!list.contains("operator Ann") && list.contains("data node 2"), "{list}");
}

#[test]
fn a_node_that_was_revoked_is_put_out_and_joins_again_by_a_token() {
    let layout = Layout { sql: 1, ..SMALL };
    let Some(mut cluster) = bare("revocation", layout, "") else { return };
    join_all(&mut cluster);
    let mut session = open(&cluster, SQL);
    all(&mut session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    all(&mut session, &["INSERT INTO d.t VALUES (1)"]);
    order(&mut cluster, "certificates revoke 2");
    until("node 2 is put out", || cluster.complete(SQL) == Some(vec![1]));
    assert_eq!(number(&mut open(&cluster, SQL), "SELECT COUNT(*) FROM d.t"), 1);
    if cluster.runs(2) {
        cluster.kill(&[2]);
    } else {
        cluster.wait_for_end(2);
    }
    // With what it has it does not come back.
    cluster.launch(2);
    assert_ne!(cluster.wait_for_end(2), Some(0));
    assert!(cluster.log(2).contains("revoked"), "{}", cluster.log(2));
    let again = token(&mut cluster, "--role data --node 2");
    cluster.launch_with(2, &["--join", &again]);
    cluster.wait_until_ready(2);
    cluster.wait_until_complete(SQL);
    // The option may stay.
    cluster.kill(&[2]);
    cluster.launch_with(2, &["--join", &again]);
    cluster.wait_until_ready(2);
    assert!(cluster.log(2).contains("has joined by this token already"), "{}", cluster.log(2));
}

#[test]
fn certificates_are_renewed_while_everything_goes_on() {
    let layout = Layout { sql: 1, ..SMALL };
    let Some(mut cluster) = bare("renewal", layout, "CertificateLifetime=24") else { return };
    join_all(&mut cluster);
    let processes: Vec<u32> = cluster.nodes().map(|node| cluster.process_id(node)).collect();
    let mut session = open(&cluster, SQL);
    all(&mut session, &["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)"]);
    let serial = |cluster: &Processes, node: u16| {
        let file = cluster.directory().join(format!("certificates/node-{node}/node-cert.pem"));
        fs::read_to_string(file).expect("it is there")
    };
    let ann = cluster.directory().join("ann");
    let place = ann.display().to_string();
    order(&mut cluster, &format!("certificates create-operator Ann --out {place}"));
    let shown = || fs::read_to_string(ann.join("node-cert.pem")).expect("it is there");
    let (of_ann, at) = (shown(), management(&cluster));
    let as_ann = ["ctl", "-c", &at, "--tls-dir", &place, "show"];
    let nodes: Vec<u16> = cluster.nodes().collect();
    let first: Vec<String> = nodes.iter().map(|node| serial(&cluster, *node)).collect();
    let began = Instant::now();
    let mut rows = 0;
    // Longer than the first ones were good.
    while began.elapsed() < Duration::from_secs(26) {
        all(&mut session, &[&format!("INSERT INTO d.t VALUES ({rows})")]);
        rows += 1;
        // An operator's is renewed when it is used, and goes on to be that operator's.
        if rows % 15 == 0 {
            text_of(&nines(&mut cluster, SQL_HOST, &as_ann), "show");
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(number(&mut session, "SELECT COUNT(*) FROM d.t"), rows);
    text_of(&nines(&mut cluster, SQL_HOST, &as_ann), "show");
    assert_ne!(shown(), of_ann);
    order(&mut cluster, "certificates revoke operator Ann");
    until("Ann may do nothing", || !nines(&mut cluster, SQL_HOST, &as_ann).status.success());
    for (node, first) in nodes.iter().zip(&first) {
        assert_ne!(serial(&cluster, *node), *first, "node {node}");
    }
    let same: Vec<u32> = cluster.nodes().map(|node| cluster.process_id(node)).collect();
    assert_eq!(processes, same, "nothing was restarted");
    let lost = |node: &u16| cluster.log(*node).contains("connection lost");
    assert!(!nodes.iter().any(lost), "links that stand go on");
    // Connections that are made now are made with the new ones.
    cluster.kill(&[2]);
    cluster.start_node(2);
    cluster.wait_until_complete(SQL);
}

#[test]
fn another_authority_takes_over_while_everything_goes_on() {
    let layout = Layout { management: 2, sql: 1, ..SMALL };
    let Some(mut cluster) = bare("authorities", layout, "") else { return };
    join_all(&mut cluster);
    let key = |node: u16| format!("certificates/node-{node}/cluster-ca-key.pem");
    let read = |cluster: &Processes, name: &str| {
        fs::read_to_string(cluster.directory().join(name)).unwrap_or_default()
    };
    let second = MANAGEMENT + 1;
    assert!(!read(&cluster, &key(MANAGEMENT)).is_empty());
    assert_eq!(read(&cluster, &key(MANAGEMENT)), read(&cluster, &key(second)));
    for node in [1, 2, SQL] {
        assert!(read(&cluster, &key(node)).is_empty(), "node {node} has the authority's key");
    }
    let list = order(&mut cluster, "certificates list");
    let before = list.split_whitespace().nth(1).expect("it signs").to_owned();
    order(&mut cluster, "certificates new-authority");
    let refused =
        ctl(&mut cluster, MANAGEMENT_HOST, &["certificates", "retire-authority", &before]);
    assert!(words_of(&refused).contains("in use"), "{}", words_of(&refused));
    until("the old one is needed by nobody", || {
        let retire = ["certificates", "retire-authority", &before];
        ctl(&mut cluster, MANAGEMENT_HOST, &retire).status.success()
    });
    let trusted = |cluster: &Processes, node: u16| {
        let text = read(cluster, &format!("certificates/node-{node}/node-ca.pem"));
        text.matches("BEGIN CERTIFICATE").count()
    };
    let nodes: Vec<u16> = cluster.nodes().collect();
    until("all nodes trust the new one alone", || {
        nodes.iter().all(|node| trusted(&cluster, *node) == 1)
    });
    assert_eq!(read(&cluster, &key(MANAGEMENT)), read(&cluster, &key(second)));
    for node in nodes.iter().filter(|node| **node != MANAGEMENT) {
        cluster.kill(&[*node]);
        cluster.start_node(*node);
    }
    cluster.wait_until_complete(SQL);
    // The second one does all that the first one does.
    cluster.kill(&[MANAGEMENT]);
    let at = format!("{}:{}", cluster.address(second), cluster.port(second));
    let host = host_of(second);
    let made = nines(&mut cluster, host, &["ctl", "-c", &at, "token", "create", "--role", "sql"]);
    assert!(text_of(&made, "token create").starts_with("nines1-sql-"));
    all(&mut open(&cluster, SQL), &["CREATE DATABASE d"]);
}

#[test]
fn figures_for_other_hosts_need_a_certificate_or_a_token() {
    let layout = Layout { sql: 1, disk: false, ..SMALL };
    let Some(mut cluster) = bare("figures", layout, "HttpPort=9600\nHttpAddress=0.0.0.0") else {
        return;
    };
    cluster.launch(MANAGEMENT);
    until("an authority", || {
        ctl(&mut cluster, MANAGEMENT_HOST, &["token", "list"]).status.success()
    });
    let ann = cluster.directory().join("ann");
    order(&mut cluster, &format!("certificates create-operator Ann --out {}", ann.display()));
    let secret = "a token that nobody guesses";
    let file = cluster.directory().join(format!("certificates/node-{MANAGEMENT}/http-token.txt"));
    fs::write(&file, secret).expect("the directory is writable");
    let address = cluster.address(MANAGEMENT);
    let ca = ann.join("node-ca.pem");
    let mut get = |host: u8, options: &[&str], url: &str| {
        let network = cluster.network().expect("it was started on hosts");
        let mut curl = network.command(host, "curl");
        curl.args(["--silent", "--show-error", "--max-time", "20", "--write-out", "%{http_code}"]);
        curl.arg("--cacert").arg(&ca).args(options).arg(url);
        words_of(&run(curl))
    };
    let url = format!("https://{address}:9600/metrics");
    let told = get(1, &[], &url);
    assert!(told.ends_with("401") && told.contains("it takes a certificate"), "{told}");
    let bearer = format!("Authorization: Bearer {secret}");
    let told = get(1, &["--header", &bearer], &url);
    assert!(told.ends_with("401"), "others may read the token: {told}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    assert!(get(1, &["--header", &bearer], &url).ends_with("# EOF\n200"));
    let told = get(1, &["--header", "Authorization: Bearer a token that somebody guesses"], &url);
    assert!(told.ends_with("401"), "{told}");
    let (certificate, key) = (ann.join("node-cert.pem"), ann.join("node-key.pem"));
    let shown = [certificate, key].map(|file| file.display().to_string());
    assert!(get(1, &["--cert", &shown[0], "--key", &shown[1]], &url).ends_with("# EOF\n200"));
    // Without TLS nobody of another host is answered; on the host itself all are.
    let plain = get(1, &[], &format!("http://{address}:9600/metrics"));
    assert!(plain.starts_with("000"), "{plain}");
    let here = get(MANAGEMENT_HOST, &[], "http://127.0.0.1:9600/metrics");
    assert!(here.ends_with("# EOF\n200"), "{here}");
}

#[test]
fn change_feeds_for_other_hosts_come_over_tls_to_accounts_of_sql() {
    let layout = Layout { sql: 1, disk: false, ..SMALL };
    let Some(mut cluster) = bare("feeds", layout, "") else { return };
    let file = cluster.directory().join("config.ini");
    let text = fs::read_to_string(&file).expect("it is there");
    let port = "[mysqld default]\nHttpPort=9600\nHttpAddress=0.0.0.0\n";
    fs::write(&file, text.replace("[mysqld default]\n", port)).expect("the directory is writable");
    join_all(&mut cluster);
    all(
        &mut open(&cluster, SQL),
        &[
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a INT PRIMARY KEY)",
            "INSERT INTO d.t VALUES (7)",
            "CREATE CHANGEFEED f FOR TABLE d.t INTO 'sql'",
            "SET PERSIST require_secure_transport = ON",
            "CREATE USER reader@'%' IDENTIFIED BY 'secret' REQUIRE SSL",
            "CREATE USER named@'%' IDENTIFIED BY 'secret' REQUIRE X509",
            "CREATE USER here@localhost IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE ON *.* TO reader@'%', named@'%', here@localhost",
        ],
    );
    let ann = cluster.directory().join("ann");
    order(&mut cluster, &format!("certificates create-operator Ann --out {}", ann.display()));
    let (address, ca) = (cluster.address(SQL), ann.join("node-ca.pem"));
    let mut get = |host: u8, account: &str, url: &str| {
        let network = cluster.network().expect("it was started on hosts");
        let mut curl = network.command(host, "curl");
        curl.args(["--silent", "--show-error", "--max-time", "4", "--write-out", "%{http_code}"]);
        curl.arg("--cacert").arg(&ca).args(["--user", account]).arg(url);
        words_of(&run(curl))
    };
    let url = format!("https://{address}:9600/changefeeds/f");
    // It has no end but the patience of who reads.
    let told = get(1, "reader:secret", &url);
    assert!(told.contains("\"after\":{\"a\":7}") && told.contains("\"op\":\"h\""), "{told}");
    for account in ["reader:wrong", "named:secret", "here:secret"] {
        let told = get(1, account, &url);
        assert!(told.contains("Access denied") && told.contains("401"), "{account}: {told}");
    }
    // What is not a feed takes a certificate or a token; without TLS nobody is answered.
    let told = get(1, "reader:secret", &format!("https://{address}:9600/metrics"));
    assert!(told.contains("it takes a certificate") && told.contains("401"), "{told}");
    let told = get(1, "reader:secret", &format!("http://{address}:9600/changefeeds/f"));
    assert!(told.contains("000"), "{told}");
    // On the host itself the rule for SQL over TCP holds.
    let told = get(SQL_HOST, "reader:secret", "http://127.0.0.1:9600/changefeeds/f");
    assert!(told.contains("3159") && told.contains("403"), "{told}");
}

/// Another user of the host of a cluster, if this process may become one.
#[test]
fn another_local_user_stops_nothing() {
    let mut may = Command::new("setpriv");
    may.args(["--reuid=12345", "--regid=12345", "--clear-groups", "true"]);
    if !run(may).status.success() {
        return say("skipped: another local user: this process may not become one");
    }
    let cluster = Processes::start(Layout { sql: 1, disk: false, ..SMALL });
    // A program that this user can reach.
    let place = temporary_directory();
    let program = place.join("nines");
    let _ = fs::copy(binary(), &program).expect("the directory is writable");
    fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let at = format!("127.0.0.1:{}", cluster.port(MANAGEMENT));
    let mut told = Vec::new();
    for words in
        [&["stop", "1"][..], &["shutdown"], &["show"], &["token", "create", "--role", "ctl"]]
    {
        let mut other = Command::new("setpriv");
        other.args(["--reuid=12345", "--regid=12345", "--clear-groups", "--"]).arg(&program);
        other.args(["ctl", "-c", &at]).args(words).env("HOME", "/nonexistent").current_dir("/");
        let output = run(other);
        assert!(!output.status.success(), "{words:?}: {}", words_of(&output));
        told.push(words_of(&output));
    }
    fs::remove_dir_all(&place).expect("it is ours");
    for told in &told {
        assert!(told.contains("it takes a certificate of an operator"), "{told}");
    }
    assert!(told[0].contains("only the user of this node"), "{told:?}");
    // The user of the nodes needs nothing.
    let mut own = Command::new(binary());
    own.args(["ctl", "-c", &at, "show"]);
    assert!(text_of(&run(own), "show").contains("is serving"));
}

/// Programs on hosts, each with a directory of its own.
struct Site {
    network: Network,
    directory: PathBuf,
    running: Vec<(String, Child)>,
}

/// The hosts of the manual.
const HOSTS: [(&str, u8); 5] = [("mgm1", 49), ("db1", 1), ("db2", 2), ("sql1", 51), ("app1", 52)];

impl Site {
    /// The manual's hosts become addresses.
    fn translated(text: &str) -> String {
        let mut text = text.to_owned();
        for (name, host) in HOSTS {
            text = text.replace(name, &Network::address(host, Family::V4).to_string());
        }
        text
    }

    fn place(&self, host: &str) -> PathBuf {
        let place = self.directory.join(host);
        fs::create_dir_all(&place).expect("the directory is writable");
        place
    }

    /// A line of a shell on a host.
    fn line(&self, host: &str, line: &str) -> Command {
        let number = HOSTS.iter().find(|(name, _)| *name == host).expect("the manual has it").1;
        let programs = binary().parent().expect("it is in a directory").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let place = self.place(host);
        let mut shell = self.network.command(number, "sh");
        let place_name = place.display();
        shell.args(["-ec", &format!("cd {place_name}; exec {line}")]);
        shell.env("HOME", &place).env("PATH", format!("{programs}:{path}"));
        shell.env_remove("XDG_CONFIG_HOME");
        shell
    }

    /// Starts a node.
    fn start(&mut self, host: &str, line: &str) {
        let log = fs::File::create(self.place(host).join("log")).expect("it is writable");
        let mut command = self.line(host, line);
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("it can be shared"));
        let child = command.stdout(log).spawn().expect("a shell starts");
        self.running.push((host.to_owned(), child));
    }

    fn log(&self, host: &str) -> String {
        fs::read_to_string(self.place(host).join("log")).unwrap_or_default()
    }

    fn logs(&self) -> BTreeMap<String, String> {
        self.running.iter().map(|(host, _)| (host.clone(), self.log(host))).collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            say(&format!("{:#?}", self.logs()));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What is in a block of the manual after a line.
fn block(page: &str, after: &str, kind: &str) -> String {
    let text = fs::read_to_string(workspace().join(page)).expect("the manual is there");
    let (_, rest) = text.split_once(after).unwrap_or_else(|| panic!("{page} has no `{after}`"));
    let (_, rest) = rest.split_once(&format!("```{kind}\n")).expect("a block follows");
    rest.split_once("```").expect("it has an end").0.to_owned()
}

/// Makes the account of the manual's client, as an administrator who has read the password.
fn make_account(site: &Site) {
    let file = site.place("sql1").join("sql/root-password");
    until("root has a password", || file.exists());
    let password = fs::read_to_string(file).expect("it is readable");
    let mut client = Command::new("mysql");
    client.args(["--no-defaults", "--user=root"]);
    client.arg(format!("--password={}", password.trim()));
    let socket = site.place("sql1").join("sql/nines-3306.sock");
    client.arg(format!("--socket={}", socket.display()));
    client.args(["-e", "CREATE USER app IDENTIFIED BY 'secret'"]);
    let output = run(client);
    assert!(output.status.success(), "{}", words_of(&output));
}

#[test]
fn a_cluster_is_set_up_from_the_manual() {
    let network = match Network::start(HOSTS.map(|(_, host)| host)) {
        Ok(network) => network,
        Err(why) => return say(&format!("skipped: the manual: {why}")),
    };
    let mut site = Site { network, directory: temporary_directory(), running: Vec::new() };
    let page = "docs/operate/security.md";
    const TITLE: &str = "## A cluster on a network in ten lines";
    let config = Site::translated(&block(page, TITLE, "ini"));
    let small = "[ndbd default]\nDataMemory=128M\nNumCPUs=1\n";
    let config = config.replace("[ndbd default]\n", small);
    fs::write(site.place("mgm1").join("config.ini"), config).expect("it is writable");
    let (mut token, mut accounts) = (String::new(), false);
    for line in block(page, TITLE, "sh").lines() {
        let (host, words) = line.split_once("$ ").expect("each line is of a host");
        let words = Site::translated(words).replace("TOKEN", &token);
        let words = words.split(" #").next().expect("there is a first").trim();
        match words.split_whitespace().nth(1) {
            Some("management" | "data" | "sql") => {
                site.start(host, words);
                if words.contains(" sql ") {
                    until("the cluster serves", || site.log(host).contains("\nready"));
                }
            }
            Some("ctl") => {
                let mut said = String::new();
                until(words, || {
                    let output = run(site.line(host, words));
                    said = words_of(&output);
                    output.status.success()
                });
                if words.contains("token create") {
                    said.trim().clone_into(&mut token);
                }
                if words.ends_with("show") {
                    assert!(said.contains("is serving"), "{said}");
                    assert_eq!(said.matches("started").count(), 3, "{said}");
                }
            }
            _ => {
                // What an administrator has done, and carried there.
                make_account(&site);
                let ca = site.place("mgm1").join("ca.pem");
                let _ = fs::copy(ca, site.place("app1").join("ca.pem")).expect("it was exported");
                let words = words.replace(" -p ", " -psecret ");
                let words = match super::tls::modes().0 {
                    "--ssl" => {
                        words.replace("--ssl-mode=VERIFY_IDENTITY", "--ssl-verify-server-cert")
                    }
                    _ => words,
                };
                let ask = format!("{words} -e \"SHOW STATUS LIKE 'Ssl_version'\"");
                let answer = text_of(&run(site.line(host, &ask)), &ask);
                assert!(answer.contains("TLSv1.3"), "{answer}");
                // Another authority's certificate is not believed.
                let other = site.place("app1").join("ca.pem");
                let mut openssl = Command::new("openssl");
                openssl.args(["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=x"]);
                openssl.arg("-keyout").arg("/dev/null").arg("-out").arg(&other);
                assert!(run(openssl).status.success());
                assert!(!run(site.line(host, &ask)).status.success());
                accounts = true;
            }
        }
    }
    assert!(accounts, "the manual ends with a client");
}
