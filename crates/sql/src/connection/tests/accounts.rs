//! Logging in to accounts: plugins, what they ask for, and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::sha1::Sha1;
use ::sha2::{Digest, Sha256};
use model::ControlIndex;
use mysql_wire::auth::{self, NATIVE, Plugin, native, sha2};

use super::*;
use crate::account::AccountName;
use crate::account::record::{Record, Requirement};
use crate::admission::{KeyAnswer, PasswordKey};

const NONCE: [u8; 20] = [b'n'; 20];
const DENIED: &str = "1045 #28000Access denied for user";

/// An account, as the catalog keeps it.
type Entry = (AccountName, Record);

fn store_password(plugin: Plugin, password: &str, random: u8) -> String {
    auth::store(plugin, password.as_bytes(), [random; 20], sha2::ROUNDS)
}

fn account(user: &str, plugin: Plugin, passwords: &[&str]) -> Entry {
    let mut texts =
        passwords.iter().zip(1..).map(|(text, salt)| store_password(plugin, text, salt));
    let record = Record {
        plugin: plugin.name().to_owned(),
        authentication: texts.next().unwrap_or_default(),
        secondary: texts.next(),
        ..Record::default()
    };
    (AccountName::new(user, "%"), record)
}

/// A cluster with these accounts and no other.
fn cluster(accounts: Vec<Entry>) -> ClusterState {
    let mut cluster = ClusterState { accounts_changed: ControlIndex(1), ..ClusterState::default() };
    for (name, record) in accounts {
        cluster.accounts.insert(name.key().into(), record.description());
    }
    cluster
}

/// Where both plugins of passwords are good.
fn admission() -> Admission {
    Admission { native_password: true, ..Admission::default() }
}

fn world_with(accounts: Vec<Entry>) -> World {
    world_of(admission(), cluster(accounts))
}

/// The client's side of `caching_sha2_password`.
fn sha2_proof(password: &str) -> Vec<u8> {
    let stage = Sha256::digest(password);
    let verifier = sha2::verifier(password.as_bytes());
    let mask = Sha256::new().chain_update(verifier).chain_update(NONCE).finalize();
    stage.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The client's side of `mysql_native_password`.
fn native_proof(password: &str) -> Vec<u8> {
    let (stage, stored) = (Sha1::digest(password), native::hash(password.as_bytes()));
    let mask = Sha1::new().chain_update(NONCE).chain_update(stored).finalize();
    stage.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

fn response_of(plugin: &str, user: &str, proof: &[u8]) -> Vec<u8> {
    let mut payload = response(UTF8, user.as_bytes(), proof, b"");
    payload.truncate(payload.len() - CACHING_SHA2.len() - 1);
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    payload
}

/// A client that has said who it is by `caching_sha2_password`.
fn begun(shared: &World, transport: Transport, user: &str, password: &str) -> Client {
    let mut client = Client::connect(shared, 1, transport);
    client.packet();
    let proof = if password.is_empty() { Vec::new() } else { sha2_proof(password) };
    client.send(&response_of(CACHING_SHA2, user, &proof));
    client
}

/// Sends the password itself, which the server asks for.
fn full(client: &mut Client, password: &str) {
    assert_eq!(client.packet(), [1, sha2::FULL]);
    client.send(format!("{password}\0").as_bytes());
}

#[test]
fn a_password_is_asked_for_once_and_proven_from_then_on() {
    let shared = world_with(vec![account("a", Plugin::CachingSha2, &["secret"])]);
    let mut client = begun(&shared, UNIX, "a", "secret");
    full(&mut client, "secret");
    assert_eq!(client.packet()[0], 0);
    assert!(client.query("SELECT CURRENT_USER()").contains("a@%"));
    assert!(client.query("SELECT USER()").contains("a@localhost"));
    // Seen before: nothing secret is sent.
    let mut client = begun(&shared, tcp("192.0.2.1", false), "a", "secret");
    assert_eq!(client.packet(), [1, sha2::PROVEN]);
    assert_eq!(client.packet()[0], 0);
    // A wrong one is not, and changes nothing.
    let mut client = begun(&shared, UNIX, "a", "Secret");
    full(&mut client, "Secret");
    let denied = format!("{DENIED} 'a'@'localhost' (using password: YES)");
    assert_eq!(client.refusal(), denied);
    let mut client = begun(&shared, UNIX, "a", "secret");
    assert_eq!(client.packet(), [1, sha2::PROVEN]);
}

#[test]
fn a_changed_password_is_not_proven_by_what_was_seen() {
    let admission = admission();
    let before = cluster(vec![account("a", Plugin::CachingSha2, &["secret"])]);
    let shared = world_of(admission.clone(), before);
    let mut client = begun(&shared, UNIX, "a", "secret");
    full(&mut client, "secret");
    assert_eq!(client.packet()[0], 0);
    // The same password, stored anew with another salt; what was seen is shared.
    let mut changed = account("a", Plugin::CachingSha2, &["other"]);
    changed.1.authentication = store_password(Plugin::CachingSha2, "secret", 9);
    let shared = world_of(admission, cluster(vec![changed]));
    let mut client = begun(&shared, UNIX, "a", "secret");
    full(&mut client, "secret");
    assert_eq!(client.packet()[0], 0);
}

#[test]
fn both_of_two_passwords_are_good() {
    for plugin in [Plugin::CachingSha2, Plugin::Native] {
        let shared = world_with(vec![account("a", plugin, &["new", "old"])]);
        for (password, good) in [("new", true), ("old", true), ("older", false)] {
            let mut client = Client::connect(&shared, 1, UNIX);
            client.packet();
            let proof = match plugin {
                Plugin::Native => native_proof(password),
                _ => sha2_proof(password),
            };
            client.send(&response_of(plugin.name(), "a", &proof));
            if plugin == Plugin::CachingSha2 {
                full(&mut client, password);
            }
            assert_eq!(client.packet()[0] == 0, good, "{plugin:?} {password}");
        }
    }
}

/// A user that there is not is told nothing that one with another password is not.
#[test]
fn an_unknown_user_is_like_a_wrong_password() {
    let accounts = vec![
        account("a", Plugin::CachingSha2, &["secret"]),
        account("empty", Plugin::CachingSha2, &[""]),
    ];
    let mut work = Vec::new();
    for user in ["a", "empty", "nobody"] {
        // Work is counted from the beginning of each.
        let shared = world_with(accounts.clone());
        let mut client = begun(&shared, UNIX, user, "wrong");
        assert_eq!(client.packet(), [1, sha2::FULL]);
        let before = client.pauses;
        client.send(b"wrong\0");
        work.push((client.pauses - before, client.asks));
        let denied = format!("{DENIED} '{user}'@'localhost' (using password: YES)");
        assert_eq!(client.refusal(), denied);
    }
    // The rounds of the hash, in pieces, and questions to the cluster: as many for each.
    assert!(work[0].0 > 0 && work[0].1 > 0);
    assert!(work.iter().all(|one| *one == work[0]), "{work:?}");
    let shared = world_with(accounts);
    for user in ["a", "nobody"] {
        let mut client = begun(&shared, UNIX, user, "");
        let denied = format!("{DENIED} '{user}'@'localhost' (using password: NO)");
        assert_eq!(client.refusal(), denied);
    }
    let mut client = begun(&shared, UNIX, "empty", "");
    assert_eq!(client.packet()[0], 0);
}

#[test]
fn a_client_is_asked_for_another_plugin_once() {
    let shared = world_with(vec![
        account("n", Plugin::Native, &["secret"]),
        account("s", Plugin::CachingSha2, &["secret"]),
    ]);
    let connect = |plugin: &str, user: &str| {
        let mut client = Client::connect(&shared, 1, UNIX);
        client.packet();
        client.send(&response_of(plugin, user, b"whatever it is"));
        client
    };
    // The name of the plugin and the nonce.
    let asked = |plugin: &str| [b"\xFE", plugin.as_bytes(), b"\0", &NONCE, b"\0"].concat();
    for plugin in [CACHING_SHA2, "client_ed25519", ""] {
        let mut client = connect(plugin, "n");
        assert_eq!(client.packet(), asked(NATIVE));
        client.send(&native_proof("secret"));
        assert_eq!(client.packet()[0], 0);
    }
    let mut client = connect(NATIVE, "s");
    assert_eq!(client.packet(), asked(CACHING_SHA2));
    client.send(&sha2_proof("secret"));
    full(&mut client, "secret");
    assert_eq!(client.packet()[0], 0);
    // A client that asks for a switch in turn has sent a wrong proof.
    let mut client = connect("client_ed25519", "n");
    assert_eq!(client.packet(), asked(NATIVE));
    client.send(&asked("client_ed25519"));
    assert!(client.refusal().starts_with(DENIED));
}

#[test]
fn the_older_plugin_has_to_be_switched_on() {
    let accounts = cluster(vec![account("n", Plugin::Native, &["secret"])]);
    let shared = world_of(Admission::default(), accounts);
    let mut client = Client::connect(&shared, 1, UNIX);
    client.packet();
    client.send(&response_of(NATIVE, "n", &native_proof("secret")));
    assert_eq!(client.refusal(), "1524 #HY000Plugin 'mysql_native_password' is not loaded");
}

/// A client from before plugins answers as the older one wants.
#[test]
fn a_client_that_knows_no_plugins() {
    let shared = world_with(vec![
        account("n", Plugin::Native, &["secret"]),
        account("s", Plugin::CachingSha2, &["secret"]),
    ]);
    let connect = |user: &str| {
        let mut client = Client::connect(&shared, 1, UNIX);
        client.packet();
        let capabilities = capability::PROTOCOL_41 | capability::SECURE_CONNECTION;
        let mut payload = response(UTF8, user.as_bytes(), &native_proof("secret"), b"");
        payload[..4].copy_from_slice(&capabilities.to_le_bytes());
        client.send(&payload);
        client
    };
    assert_eq!(connect("n").packet()[0], 0);
    assert!(connect("s").refusal().starts_with("1251 #08004Client does not support"));
}

#[test]
fn the_user_of_a_socket_is_who_the_system_says() {
    let shared = world_with(vec![
        account("nines", Plugin::Socket, &[]),
        account("other", Plugin::Socket, &["nines"]),
    ]);
    let try_as = |transport: Transport, user: &str| {
        let mut client = Client::connect(&shared, 1, transport);
        client.packet();
        client.send(&response_of(CACHING_SHA2, user, b""));
        client.packet()[0] == 0
    };
    let of = |user: &str| Transport::Unix { user: Some(user.to_owned()) };
    assert!(try_as(of("nines"), "nines") && try_as(of("nines"), "other"));
    assert!(!try_as(of("other"), "nines") && !try_as(of("other"), "other"));
    assert!(!try_as(UNIX, "nines") && !try_as(tcp("127.0.0.1", true), "nines"));
}

/// A key that seals by turning bytes around, and is slow.
#[derive(Debug, Default)]
struct Reversing {
    refusals: AtomicUsize,
}

impl Reversing {
    fn reversed(bytes: &[u8]) -> Vec<u8> {
        bytes.iter().rev().copied().collect()
    }

    fn answer(&self, answer: &KeyAnswer, with: Option<Vec<u8>>) -> bool {
        // The first two have to ask again.
        self.refusals.fetch_add(1, Ordering::Relaxed) >= 2 && answer.set(with).is_ok()
    }
}

impl PasswordKey for Reversing {
    fn ask_public(&self, answer: &KeyAnswer) -> bool {
        self.answer(answer, Some(b"PEM".to_vec()))
    }

    fn ask_open(&self, sealed: &[u8], answer: &KeyAnswer) -> bool {
        self.answer(answer, Some(Self::reversed(sealed)))
    }
}

#[test]
fn over_an_open_connection_a_password_is_sealed() {
    let world = |has_key: bool| {
        let key = has_key.then(|| Arc::new(Reversing::default()) as Arc<dyn PasswordKey>);
        let accounts = cluster(vec![account("a", Plugin::CachingSha2, &["secret"])]);
        world_of(Admission { password_key: key, ..admission() }, accounts)
    };
    let shared = world(true);
    let mixed = |password: &str| {
        let clear = format!("{password}\0");
        let mixed: Vec<u8> = clear.bytes().zip(NONCE.iter().cycle()).map(|(a, b)| a ^ b).collect();
        Reversing::reversed(&mixed)
    };
    let open = tcp("192.0.2.1", false);
    for (password, good) in [("Secret", false), ("secret", true)] {
        let mut client = begun(&shared, open.clone(), "a", password);
        assert_eq!(client.packet(), [1, sha2::FULL]);
        client.send(&[sha2::WANTS_KEY]);
        assert_eq!(client.packet(), *b"\x01PEM");
        client.send(&mixed(password));
        assert_eq!(client.packet()[0] == 0, good, "{password}");
    }
    // The client has the key already.
    let shared = world(true);
    let mut client = begun(&shared, open.clone(), "a", "secret");
    assert_eq!(client.packet(), [1, sha2::FULL]);
    client.send(&mixed("secret"));
    assert_eq!(client.packet()[0], 0);
    // In clear it is none, and without a key nothing is.
    for has_key in [true, false] {
        let mut client = begun(&world(has_key), open.clone(), "a", "secret");
        full(&mut client, "secret");
        assert!(client.refusal().starts_with(DENIED));
    }
}

#[test]
fn what_accounts_require_beside_a_password() {
    let with = |user: &str, change: fn(&mut Record)| {
        let mut account = account(user, Plugin::Native, &["secret"]);
        change(&mut account.1);
        account
    };
    let shared = world_with(vec![
        with("ssl", |account| account.require = Requirement::Ssl),
        with("x509", |account| account.require = Requirement::X509),
        with("locked", |account| account.locked = true),
        with("expired", |account| account.expired = true),
    ]);
    let connect = |user: &str, by_tls: Option<Encryption>, password: &str| {
        let mut client = Client::connect(&shared, 1, tcp("192.0.2.1", false));
        client.packet();
        if let Some(encryption) = by_tls {
            client.begin_tls_with(encryption);
        }
        client.send(&response_of(NATIVE, user, &native_proof(password)));
        client
    };
    let shown = || {
        let peer = actor::PeerCertificate { subject: "/CN=c".into(), issuer: "/CN=ca".into() };
        Encryption { peer: Some(peer), ..encryption() }
    };
    assert!(connect("ssl", None, "secret").refusal().starts_with(DENIED));
    assert_eq!(connect("ssl", Some(encryption()), "secret").packet()[0], 0);
    assert!(connect("x509", Some(encryption()), "secret").refusal().starts_with(DENIED));
    assert_eq!(connect("x509", Some(shown()), "secret").packet()[0], 0);
    // Whoever does not know the password is not told more.
    let locked = "3118 #HY000Access denied for user 'locked'@'192.0.2.1'. Account is locked.";
    assert_eq!(connect("locked", None, "secret").refusal(), locked);
    assert!(connect("locked", None, "Secret").refusal().starts_with(DENIED));
    assert!(connect("expired", None, "Secret").refusal().starts_with(DENIED));
    assert!(connect("expired", None, "secret").refusal().starts_with("1862 #HY000Your password"));
    // A client that can change it is let in for that.
    shared.directory.lock().globals.insert("disconnect_on_expired_password".into(), "OFF".into());
    let mut client = connect("expired", None, "secret");
    assert_eq!(client.packet()[0], 0);
    assert!(client.query("SELECT 1").contains("#HY000You must reset your password"));
    assert!(!client.query("SET @a = 1").contains("#HY000"));
}

#[test]
fn open_connections_are_refused_where_protection_is_required() {
    let shared = world();
    shared.directory.lock().globals.insert("require_secure_transport".into(), "ON".into());
    let mut client = begun(&shared, tcp("127.0.0.1", true), "root", "");
    let refusal = client.refusal();
    assert!(refusal.starts_with("3159 #HY000Connections using insecure transport"), "{refusal}");
    let mut client = begun(&shared, UNIX, "root", "");
    assert_eq!(client.packet()[0], 0);
    let mut client = Client::connect(&shared, 1, tcp("127.0.0.1", true));
    client.packet();
    client.begin_tls();
    client.send(&response(UTF8, b"root", b"", b""));
    assert_eq!(client.packet()[0], 0);
    // The host has encrypted this one before it came here, as those of HTTP.
    let encryption = Some(Encryption { protocol: "TLSv1.3", ..Encryption::default() });
    let transport = tcp("127.0.0.1", true);
    let peer = ConnectionPeer { transport, tls_offered: false, encryption };
    let mut client = Client::connect_by(&shared, 1, peer);
    client.packet();
    client.send(&response(UTF8, b"root", b"", b""));
    assert_eq!(client.packet()[0], 0);
}

/// What MariaDB's clients check a certificate by that they have no authority for.
#[test]
fn the_certificate_is_proven_to_who_knows_the_password() {
    let shared = world_with(vec![account("n", Plugin::Native, &["secret"])]);
    let connect = |by_tls: bool| {
        let mut client = Client::connect(&shared, 1, tcp("192.0.2.1", false));
        client.packet();
        if by_tls {
            client.begin_tls();
        }
        client.send(&response_of(NATIVE, "n", &native_proof("secret")));
        client.packet()
    };
    let proof = native::certificate_proof(&native::hash(b"secret"), &NONCE, &[7; 32]);
    let (encrypted, open) = (connect(true), connect(false));
    assert!((encrypted[0], open[0]) == (0, 0) && encrypted.ends_with(proof.as_bytes()));
    assert!(!open.ends_with(proof.as_bytes()));
}

/// The first plugin that a client hears of is the one of the policy.
#[test]
fn the_policy_says_which_plugin_is_first() {
    let greeting = |native_password: bool, policy: &str| {
        let shared = world_of(
            Admission { native_password, ..Admission::default() },
            ClusterState::default(),
        );
        let name = "authentication_policy".to_owned();
        shared.directory.lock().globals.insert(name, policy.to_owned());
        String::from_utf8_lossy(&Client::connect(&shared, 1, UNIX).packet()).into_owned()
    };
    let is = |greeting: String, plugin: &str| greeting.ends_with(&format!("{plugin}\0"));
    assert!(is(greeting(true, "*,,"), CACHING_SHA2));
    assert!(is(greeting(true, "mysql_native_password,,"), NATIVE));
    assert!(is(greeting(false, "mysql_native_password"), CACHING_SHA2));
}

#[test]
fn another_user_by_the_same_connection() {
    let shared = world_with(vec![
        account("n", Plugin::Native, &["secret"]),
        account("s", Plugin::CachingSha2, &["secret"]),
        account("e", Plugin::CachingSha2, &[""]),
    ]);
    let mut client = begun(&shared, UNIX, "e", "");
    assert_eq!(client.packet()[0], 0);
    let change = |user: &str, proof: &[u8], plugin: &str| {
        let length = [proof.len() as u8];
        let parts = [b"\x11", user.as_bytes(), b"\0", &length, proof, b"\0", &[255, 0]];
        [&parts.concat(), plugin.as_bytes(), b"\0"].concat()
    };
    // Each plugin, from the other and with a password that has not been seen.
    assert_eq!(client.command(&change("n", &sha2_proof("secret"), CACHING_SHA2))[0], 0xFE);
    client.send(&native_proof("secret"));
    assert_eq!(client.packet()[0], 0);
    assert!(client.query("SELECT CURRENT_USER()").contains("n@%"));
    let asked = client.command(&change("s", &sha2_proof("secret"), CACHING_SHA2));
    assert_eq!(asked, [1, sha2::FULL]);
    client.send(b"secret\0");
    assert_eq!(client.packet()[0], 0);
    assert!(client.query("SELECT CURRENT_USER()").contains("s@%"));
    client.sequence = 0;
    client.send(&change("n", &native_proof("wrong"), NATIVE));
    assert!(client.refusal().starts_with(DENIED));
}

#[test]
fn a_login_has_so_many_bytes_and_so_much_time() {
    let shared = world_with(vec![account("a", Plugin::CachingSha2, &["secret"])]);
    let too_long = "1043 #08S01Bad handshake: it is too long";
    // A packet that claims to be long is refused by its head.
    let mut client = Client::connect(&shared, 1, UNIX);
    client.packet();
    client.link.borrow_mut().received.extend_from_slice(&[0xFF, 0xFF, 0xFF, 1]);
    client.sequence += 1;
    client.run();
    assert_eq!(client.refusal(), too_long);
    // So are several that are too long together.
    let mut client = Client::connect(&shared, 1, UNIX);
    client.packet();
    let mut payload = response_of(CACHING_SHA2, "a", &sha2_proof("secret"));
    payload.resize(40 << 10, 0);
    client.send(&payload);
    assert_eq!(client.packet(), [1, sha2::FULL]);
    client.send(&vec![b'x'; 30 << 10]);
    assert_eq!(client.refusal(), too_long);
    // A byte now and then is no reason to wait longer.
    shared.directory.lock().globals.insert("connect_timeout".into(), "3".into());
    let mut client = Client::connect(&shared, 1, UNIX);
    client.packet();
    for byte in 0..5 {
        assert_eq!(client.over, byte > 2, "after {byte} seconds");
        let mut link = client.link.borrow_mut();
        link.now = link.now + Duration::from_secs(1);
        link.received.push(0);
        drop(link);
        client.run();
    }
}

/// A client that takes its time is who it was only as long as the account is what it was.
#[test]
fn a_password_that_was_changed_meanwhile_lets_nobody_in() {
    let mut shared = world_with(vec![account("a", Plugin::CachingSha2, &["secret"])]);
    let changed = cluster(vec![account("a", Plugin::CachingSha2, &["other"])]);
    let mut client = begun(&shared, UNIX, "a", "secret");
    assert_eq!(client.packet(), [1, sha2::FULL]);
    let after = ClusterState { accounts_changed: ControlIndex(2), ..changed };
    shared.cluster = Arc::new(after);
    client.exchange.borrow_mut().cluster = shared.cluster.clone();
    client.send(b"secret\0");
    assert!(client.refusal().starts_with(DENIED));
    let mut client = begun(&shared, UNIX, "a", "other");
    full(&mut client, "other");
    assert_eq!(client.packet()[0], 0);
}

#[test]
fn failed_logins_in_a_row_block_an_account() {
    let mut limited = account("a", Plugin::Native, &["secret"]);
    (limited.1.attempts, limited.1.lock_days) = (2, Some(3));
    let entries = vec![limited.clone(), account("b", Plugin::Native, &["secret"])];
    let mut shared = world_with(entries);
    let connect = |shared: &World, user: &str, password: &str| {
        let mut client = Client::connect(shared, 1, UNIX);
        client.packet();
        client.send(&response_of(NATIVE, user, &native_proof(password)));
        if client.over { client.refusal() } else { String::new() }
    };
    let blocked = "3955 #HY000Access denied for user 'a'@'localhost'. Account is blocked for 3 \
                   day(s) (3 day(s) remaining) due to 2 consecutive failed logins.";
    assert!(connect(&shared, "a", "wrong").starts_with(DENIED));
    assert_eq!(connect(&shared, "a", "secret"), "", "which begins the row anew");
    assert!(connect(&shared, "a", "wrong").starts_with(DENIED));
    assert_eq!(connect(&shared, "a", "wrong"), blocked);
    assert_eq!(connect(&shared, "a", "secret"), blocked);
    assert_eq!(connect(&shared, "b", "secret"), "");
    // FLUSH PRIVILEGES, and ALTER USER … ACCOUNT UNLOCK.
    shared.admission.attempts.clear();
    assert_eq!(connect(&shared, "a", "secret"), "");
    (0..2).for_each(|_| drop(connect(&shared, "a", "wrong")));
    assert_eq!(connect(&shared, "a", "secret"), blocked);
    limited.1.forgiven = 1;
    shared.cluster =
        Arc::new(ClusterState { accounts_changed: ControlIndex(2), ..cluster(vec![limited]) });
    assert_eq!(connect(&shared, "a", "secret"), "");
}
