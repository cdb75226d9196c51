//! Logging in: who is let in, and how a password is proven.
//!
//! Until accounts exist there is `root` alone, without a password, from this machine only. The
//! exchange is the real one: clients that begin with another plugin are switched to one both know,
//! and who offers a password is asked for it as `caching_sha2_password` does before it is refused.
//!
//! # Not here
//! Public keys for a password over an open connection: whoever asks for one is refused.

use actor::Transport;
use collation::CollationId;
use mysql_wire::auth::{self, CACHING_SHA2, FULL_AUTHENTICATION, NATIVE};
use mysql_wire::constants::{capability, status};
use mysql_wire::{Response, answer};
use sql_expression::SqlError;

use super::{Connection, End, Greeting, LOGIN_PATIENCE};
use crate::directory::{Process, SLEEP};
use crate::session::Session;
use crate::variables::{self, VERSION};

/// The greeting, perhaps TLS, the login.
pub(super) async fn log_in(connection: &mut Connection, greeting: &Greeting) -> Result<(), End> {
    if greeting.shutting_down {
        return Err(End::Error(SqlError::new(1053, "08S01", "Server shutdown in progress")));
    }
    require_room(&connection.session)?;
    if !is_local(greeting) {
        return Err(End::Error(SqlError::of::<1130>(&[&host_of(greeting)])));
    }
    let hello = mysql_wire::Greeting {
        version: VERSION,
        connection: greeting.number,
        nonce: greeting.nonce,
        tls: greeting.peer.tls_offered,
        collation: CollationId::DEFAULT.0 as u8,
        status: status::AUTOCOMMIT,
        plugin: CACHING_SHA2,
    };
    connection.wire.write(|out| hello.write(out));
    // Whoever reads the greeting knows what came with it, SQLSTATEs of errors among others.
    connection.wire.capabilities = capability::PROTOCOL_41;
    let mut response = read_response(connection).await?;
    if response.tls_wanted {
        if !greeting.peer.tls_offered {
            let text = "TLS was asked for and is not offered: start with --tls-cert and --tls-key";
            return Err(End::Error(SqlError::new(3159, "HY000", text)));
        }
        let rest = connection.wire.channel.borrow_mut().take_rest();
        let link = &connection.wire.link;
        link.start_tls(&rest, link.now() + LOGIN_PATIENCE).await?;
        response = read_response(connection).await?;
        connection.session.tls = connection.wire.link.secured();
    }
    connection.wire.capabilities = response.capabilities & hello.capabilities();
    connection.session.count_matched = connection.wire.has(capability::FOUND_ROWS);
    connection.session.interactive = connection.wire.has(capability::INTERACTIVE);
    authenticate(connection, response, greeting).await
}

/// Whether one more may come. As MySQL keeps a place above `max_connections` for administrators,
/// and `root` is one, so many and one more may be logged in.
fn require_room(session: &Session) -> Result<(), End> {
    let variable = variables::registry::find("max_connections").expect("it is in the table");
    let limit = variables::shown_text(session, variable, true);
    let limit = limit.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
    let others = session.shared.directory.lock().connection_counts().0;
    if others > limit { Err(End::Error(SqlError::of::<1040>(&[]))) } else { Ok(()) }
}

async fn read_response(connection: &Connection) -> Result<Response, End> {
    let payload = connection.wire.packet(Some(LOGIN_PATIENCE)).await?;
    Response::parse(&payload).map_err(|_| {
        End::Error(SqlError::new(
            1043,
            "08S01",
            "Bad handshake: the protocol of MySQL 4.1 is needed",
        ))
    })
}

/// COM_CHANGE_USER: the session has been reset already.
pub(super) async fn change_user(
    connection: &mut Connection,
    response: Response,
    greeting: &Greeting,
) -> Result<(), End> {
    authenticate(connection, response, greeting).await
}

async fn authenticate(
    connection: &mut Connection,
    mut response: Response,
    greeting: &Greeting,
) -> Result<(), End> {
    connection.session.set_client_collation(response.collation);
    let user = connection.text(response.user);
    let database = response.database.map(|name| connection.text(name));
    let attributes = response.attributes.into_iter();
    connection.session.attributes =
        attributes.map(|(name, value)| (connection.text(name), connection.text(value))).collect();
    let known = [CACHING_SHA2, NATIVE].contains(&response.plugin.as_str());
    if !known && connection.wire.has(capability::PLUGIN_AUTH) {
        connection.wire.write(|out| answer::auth_switch(out, NATIVE, &greeting.nonce));
        response.auth = connection.wire.packet(Some(LOGIN_PATIENCE)).await?;
        response.plugin = NATIVE.to_owned();
    }
    let has_password = !auth::is_without_password(&response.auth);
    if has_password && response.plugin == CACHING_SHA2 {
        connection.wire.write(|out| answer::auth_more(out, &[FULL_AUTHENTICATION]));
        // The password, or the wish for a public key. No account has a password, so neither helps.
        connection.wire.packet(Some(LOGIN_PATIENCE)).await?;
    }
    let host = host_of(greeting);
    if user != "root" || has_password {
        let using = if has_password { "YES" } else { "NO" };
        return Err(End::Error(SqlError::of::<1045>(&[&user, &host, &using])));
    }
    connection.session.user = format!("{user}@{host}");
    register(connection, greeting, &user, &host);
    if let Some(database) = &database {
        crate::administration::use_database(&mut connection.session, database)
            .await
            .map_err(End::Error)?;
        // What the client asked for is no news.
        connection.session.take_state_changes();
    }
    connection.answer(Ok(crate::result::Outcome::default()), false);
    Ok(())
}

/// Whether the client is a process of this machine.
fn is_local(greeting: &Greeting) -> bool {
    match &greeting.peer.transport {
        Transport::Unix => true,
        Transport::Tcp { loopback, .. } => *loopback,
    }
}

fn host_of(greeting: &Greeting) -> String {
    match &greeting.peer.transport {
        Transport::Unix => "localhost".to_owned(),
        Transport::Tcp { loopback: true, .. } => "localhost".to_owned(),
        Transport::Tcp { address, .. } => address.clone(),
    }
}

/// Lists the connection for SHOW PROCESSLIST.
fn register(connection: &mut Connection, greeting: &Greeting, user: &str, host: &str) {
    let host = match &greeting.peer.transport {
        Transport::Unix => host.to_owned(),
        Transport::Tcp { port, .. } => format!("{host}:{port}"),
    };
    let process = Process {
        id: greeting.number,
        user: user.to_owned(),
        host,
        database: None,
        command: SLEEP,
        since: connection.session.kernel.now(),
        state: "",
        info: String::new(),
    };
    let shared = &connection.session.shared;
    shared.ledger.lock().processes.insert(greeting.number, process);
    let mut registry = shared.directory.lock();
    registry.connections_peak = registry.connections_peak.max(registry.connection_counts().0);
}
