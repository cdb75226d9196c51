//! Logging in: the greeting, TLS, whose account it is, and what has to be true beside its password.
//!
//! # Guarantees
//! All of it together takes no longer than `connect_timeout` and no more than [`BYTES_MAX`] from
//! the client. A user that there is not is treated like one with another password: the same
//! packets, the same work, the same error. What comes in before encryption is established is
//! never taken for anything but its first bytes.
//! # Not here
//! How each plugin has a password proven (`proof`), which account a client is (`account::book`).

mod proof;

use std::rc::Rc;

use actor::{Encryption, Transport};
use collation::CollationId;
use mysql_wire::auth::{Account, CACHING_SHA2, NATIVE, Plugin, Protection, native};
use mysql_wire::constants::{capability, status};
use mysql_wire::{FrameNumber, Response};
use sql_expression::SqlError;
use stdx::{Duration, Instant};

use super::{Connection, End, Greeting};
use crate::account::error;
use crate::admission::ClientHost;
use crate::directory::{Process, SLEEP};
use crate::link::{Goodbye, InputEnd};
use crate::result::Outcome;
use crate::session::Session;
use crate::variables::compression::Algorithm;
use crate::variables::{self, VERSION};

use proof::{Proof, Proven};

/// Bytes that a client may send before it has logged in.
pub(super) const BYTES_MAX: usize = 64 << 10;

/// How much time and how many bytes a login has left.
#[derive(Debug)]
struct Patience {
    until: Instant,
    bytes: usize,
}

impl Patience {
    fn new(connection: &Connection) -> Self {
        let seconds = global(&connection.session, "connect_timeout");
        let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(10);
        let until = connection.wire.link.now() + Duration::from_secs(seconds);
        Self { until, bytes: BYTES_MAX }
    }

    /// The client's next packet.
    async fn packet(&mut self, connection: &Connection) -> Result<Vec<u8>, End> {
        let wire = &connection.wire;
        wire.channel.borrow_mut().payload_max = self.bytes;
        let left = self.until.since(wire.link.now());
        let packet = wire.packet(Some(left)).await.map_err(|end| match end {
            End::Error(error) if error.code() == 1153 => bad_handshake("it is too long"),
            end => end,
        })?;
        self.bytes = self.bytes.saturating_sub(packet.len() + 4);
        Ok(packet)
    }
}

fn bad_handshake(why: &str) -> End {
    End::Error(SqlError::new(1043, "08S01", format!("Bad handshake: {why}")))
}

/// The server's value of a variable.
fn global(session: &Session, name: &str) -> Option<String> {
    let variable = variables::registry::find(name).expect("it is in the table");
    variables::session::shown_text(session, variable, true)
}

fn is_on(session: &Session, name: &str) -> bool {
    global(session, name).as_deref() == Some("ON")
}

/// The greeting, perhaps TLS, the login.
pub(super) async fn log_in(connection: &mut Connection, greeting: &Greeting) -> Result<(), End> {
    if greeting.shutting_down {
        return Err(End::Error(Goodbye::ShuttingDown.error()));
    }
    require_room(&connection.session)?;
    connection.session.tls = greeting.peer.encryption.clone().map(Rc::new);
    let from = ClientHost::of(&greeting.peer.transport);
    if !connection.session.expects_client(&from).await {
        return Err(End::Error(SqlError::of::<1130>(&[&from.name()])));
    }
    let algorithms = variables::session::compression(&connection.session);
    let hello = mysql_wire::Greeting {
        version: VERSION,
        connection: greeting.number,
        nonce: greeting.nonce,
        tls: greeting.peer.tls_offered,
        compression: algorithms.contains(Algorithm::Zlib),
        collation: CollationId::DEFAULT.0 as u8,
        status: status::AUTOCOMMIT,
        plugin: first_plugin(&connection.session),
    };
    connection.wire.write(|out| hello.write(out));
    // Whoever reads the greeting knows what came with it, SQLSTATEs of errors among others.
    connection.wire.capabilities = capability::PROTOCOL_41;
    let mut patience = Patience::new(connection);
    let mut response = read_response(connection, &mut patience).await?;
    if response.tls_wanted {
        if !greeting.peer.tls_offered {
            return Err(bad_handshake("TLS is not offered"));
        }
        encrypt(connection, &patience).await?;
        response = read_response(connection, &mut patience).await?;
        if response.tls_wanted {
            return Err(bad_handshake("the connection is encrypted already"));
        }
    }
    connection.wire.capabilities = response.capabilities & hello.capabilities();
    connection.session.count_matched = connection.wire.has(capability::FOUND_ROWS);
    connection.session.knows_no_metadata =
        connection.wire.has(capability::OPTIONAL_RESULTSET_METADATA);
    connection.session.interactive = connection.wire.has(capability::INTERACTIVE);
    if !algorithms.contains(connection.algorithm()) {
        let text = "Connection cannot be established: this server talks to compressed connections \
                    alone (protocol_compression_algorithms); use --compression-algorithms=zlib";
        return Err(bad_handshake(text));
    }
    authenticate(connection, response, greeting, patience).await?;
    if connection.wire.has(capability::COMPRESS) {
        connection.begin_compression();
    }
    Ok(())
}

impl Connection {
    fn algorithm(&self) -> Algorithm {
        if self.wire.has(capability::COMPRESS) { Algorithm::Zlib } else { Algorithm::Uncompressed }
    }

    /// What comes after the answer to the login is compressed.
    fn begin_compression(&mut self) {
        let number = FrameNumber::default();
        self.wire.channel.borrow_mut().begin_compression(number.clone());
        self.wire.link.compress(number, self.session.pauses.clone());
        self.session.is_compressed = true;
    }
}

/// The plugin whose proof a client may send with its first packet: the first of
/// `authentication_policy`.
fn first_plugin(session: &Session) -> &'static str {
    let policy = global(session, "authentication_policy").unwrap_or_default();
    let first = policy.split(',').next().unwrap_or_default().trim();
    match Plugin::of(first) {
        Some(Plugin::Native) if session.shared.admission.native_password => NATIVE,
        _ => CACHING_SHA2,
    }
}

/// Establishes TLS.
async fn encrypt(connection: &mut Connection, patience: &Patience) -> Result<(), End> {
    connection.session.shared.ledger.lock().counters.tls_accepts += 1;
    let rest = connection.wire.channel.borrow_mut().take_rest();
    let link = &connection.wire.link;
    link.start_tls(&rest, patience.until).await?;
    connection.session.tls = link.secured();
    let is_resumed = connection.session.tls.as_ref().is_some_and(|tls| tls.is_resumed);
    let mut ledger = connection.session.shared.ledger.lock();
    ledger.counters.tls_accepted += 1;
    ledger.counters.tls_resumed += u64::from(is_resumed);
    Ok(())
}

/// Whether one more may come. As MySQL keeps a place above `max_connections` for administrators,
/// and `root` is one, so many and one more may be logged in.
fn require_room(session: &Session) -> Result<(), End> {
    let limit = global(session, "max_connections");
    let limit = limit.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let others = session.shared.directory.lock().connection_counts().0;
    if others > limit { Err(End::Error(SqlError::of::<1040>(&[]))) } else { Ok(()) }
}

async fn read_response(connection: &Connection, patience: &mut Patience) -> Result<Response, End> {
    // Who has said nothing yet is waited for by no server that ends.
    connection.wire.link.let_go(true);
    let payload = patience.packet(connection).await;
    connection.wire.link.let_go(false);
    let payload = payload?;
    Response::parse(&payload)
        .map_err(|_| bad_handshake("this is no login of MySQL's protocol since 4.1"))
}

/// COM_CHANGE_USER: the session has been reset already.
pub(super) async fn change_user(
    connection: &mut Connection,
    response: Response,
    greeting: &Greeting,
) -> Result<(), End> {
    let patience = Patience::new(connection);
    authenticate(connection, response, greeting, patience).await
}

async fn authenticate(
    connection: &mut Connection,
    response: Response,
    greeting: &Greeting,
    patience: Patience,
) -> Result<(), End> {
    let admitted = admit(connection, response, greeting, patience).await;
    if let Err(End::Error(refused)) = &admitted {
        connection.session.audit_refusal(&greeting.peer.transport, refused.code()).await;
    }
    admitted
}

async fn admit(
    connection: &mut Connection,
    response: Response,
    greeting: &Greeting,
    patience: Patience,
) -> Result<(), End> {
    connection.session.set_client_collation(response.collation);
    let user = connection.text(response.user);
    let from = ClientHost::of(&greeting.peer.transport);
    connection.session.user = format!("{user}@{}", from.name());
    require_protection(connection, greeting)?;
    let database = response.database.map(|name| connection.text(name));
    let attributes = response.attributes.into_iter();
    connection.session.attributes =
        attributes.map(|(name, value)| (connection.text(name), connection.text(value))).collect();
    let session = &mut connection.session;
    let now = session.kernel.now();
    session.statement_time = greeting.clock_base + (now.as_nanos() / 1000) as i64;
    let native_password = session.shared.admission.native_password;
    let found = session.client_account(&user, &from).await.map_err(End::Error)?;
    let account = found.as_ref().map_or_else(|| Account::decoy(&user), |one| one.account.clone());
    let plugin = Plugin::of(&account.plugin);
    let plugin = plugin.filter(|plugin| *plugin != Plugin::Native || native_password);
    let Some(plugin) = plugin else {
        return Err(End::Error(error::no_plugin(&account.plugin)));
    };
    let mut proof = Proof {
        connection,
        greeting,
        patience,
        plugin: response.plugin,
        answer: response.auth,
        with_password: false,
    };
    let proven = proof.check(plugin, &account).await?;
    let using = if proof.with_password { "YES" } else { "NO" };
    let denied = || End::Error(SqlError::of::<1045>(&[&user, &from.name(), &using]));
    let session = &connection.session;
    let is_same = session.is_client_still(found.as_ref(), &user, &from).await;
    if !is_same.map_err(End::Error)? {
        return Err(denied());
    }
    if let Some(found) = &found {
        session.count_attempt(found, &user, from.name(), proven.is_some()).map_err(End::Error)?;
    }
    let tls = connection.session.tls.clone();
    let protection = tls.as_deref().map(|tls| Protection {
        cipher: tls.cipher,
        certificate: tls.peer.as_ref().map(|peer| (&*peer.subject, &*peer.issuer)),
    });
    let proven = proven.filter(|_| account.require.is_met_by(protection));
    let (Some(found), Some(proven)) = (found, proven) else { return Err(denied()) };
    if account.is_locked {
        return Err(End::Error(SqlError::of::<3118>(&[&user, &from.name()])));
    }
    admit_expired(connection, &account)?;
    let counted = connection.session.count_connection(&found).map_err(End::Error)?;
    let own_limit = Some(found.limits.connections).filter(|limit| *limit > 0);
    let info = certificate_proof(proven, tls.as_deref(), greeting);
    connection.session.become_account(found.name);
    connection.session.login.is_expired = account.has_expired;
    connection.session.login.connection = Some(counted);
    if let Some(limit) = own_limit {
        let limit = Some(limit.to_string());
        connection.session.variables.assign("max_user_connections", limit);
    }
    enter(connection, greeting, &user, database.as_deref()).await?;
    let session = &mut connection.session;
    session.login.audited = session.audit_login(&greeting.peer.transport).await;
    let outcome = Outcome::with_info(0, info);
    connection.answer(Ok(outcome), false);
    Ok(())
}

/// What MariaDB's clients verify a certificate by that no authority vouches for; empty for others.
fn certificate_proof(proven: Proven, tls: Option<&Encryption>, greeting: &Greeting) -> String {
    match (proven, tls) {
        (Proven::Native(hash), Some(tls)) => {
            native::certificate_proof(&hash, &greeting.nonce, &tls.fingerprint)
        }
        _ => String::new(),
    }
}

/// With `require_secure_transport`, a connection that is neither encrypted nor within the machine
/// is refused before anything is proven over it.
fn require_protection(connection: &Connection, greeting: &Greeting) -> Result<(), End> {
    let is_open = connection.session.tls.is_none()
        && matches!(greeting.peer.transport, Transport::Tcp { .. });
    if is_open && is_on(&connection.session, "require_secure_transport") {
        return Err(End::Error(SqlError::of::<3159>(&[])));
    }
    Ok(())
}

/// An account whose password has expired is let in to change it, by clients that know of that.
fn admit_expired(connection: &Connection, account: &Account) -> Result<(), End> {
    let knows = connection.wire.has(capability::CAN_HANDLE_EXPIRED_PASSWORDS);
    if account.has_expired && !knows && is_on(&connection.session, "disconnect_on_expired_password")
    {
        let text = "Your password has expired. To log in you must change it using a client that \
                    supports expired passwords.";
        return Err(End::Error(SqlError::new(1862, "HY000", text)));
    }
    Ok(())
}

/// The client is who it says: its session begins.
async fn enter(
    connection: &mut Connection,
    greeting: &Greeting,
    user: &str,
    database: Option<&str>,
) -> Result<(), End> {
    let from = ClientHost::of(&greeting.peer.transport);
    connection.wire.link.set_logged_in();
    register(connection, greeting, user, from.name());
    if let Some(database) = database {
        crate::administration::use_database(&mut connection.session, database)
            .await
            .map_err(End::Error)?;
        // What the client asked for is no news.
        connection.session.take_state_changes();
    }
    Ok(())
}

/// Lists the connection for SHOW PROCESSLIST.
fn register(connection: &mut Connection, greeting: &Greeting, user: &str, host: &str) {
    let host = match &greeting.peer.transport {
        Transport::Unix { .. } => host.to_owned(),
        Transport::Tcp { port, .. } => format!("{host}:{port}"),
    };
    let process = Process {
        replica: None,
        id: greeting.number,
        user: user.to_owned(),
        host,
        database: None,
        command: SLEEP,
        since: connection.session.kernel.now(),
        state: "",
        info: String::new(),
        attributes: connection.session.attributes.clone(),
    };
    let shared = &connection.session.shared;
    shared.ledger.lock().processes.insert(greeting.number, process);
    let mut registry = shared.directory.lock();
    registry.connections_peak = registry.connections_peak.max(registry.connection_counts().0);
}

impl From<crate::kernel::Failure> for End {
    /// A login that is interrupted has nobody to tell.
    fn from(_: crate::kernel::Failure) -> Self {
        InputEnd::Ended.into()
    }
}
