//! Logging in: who is let in, and how a password is proven.
//!
//! Until accounts exist there is `root` alone, without a password, from this machine only. The
//! exchange is the real one: clients that begin with another plugin are switched to one both know.

use actor::Transport;
use collation::CollationId;
use mysql_wire::auth::{CACHING_SHA2, NATIVE};
use mysql_wire::constants::{capability, status};
use mysql_wire::{Response, answer};
use sql_expression::SqlError;

use super::{Connection, End, Greeting, LOGIN_PATIENCE};
use crate::directory::Process;
use crate::variables::VERSION;

/// The greeting, perhaps TLS, the login.
pub(super) async fn log_in(connection: &mut Connection, greeting: &Greeting) -> Result<(), End> {
    if greeting.shutting_down {
        return Err(End::Error(SqlError::new(1053, "08S01", "Server shutdown in progress")));
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
    let mut response = read_response(connection).await?;
    if response.tls_wanted {
        if !greeting.peer.tls_offered {
            let text = "TLS was asked for and is not offered: start with --tls-cert and --tls-key";
            return Err(End::Error(SqlError::new(3159, "HY000", text)));
        }
        let rest = connection.wire.channel.borrow_mut().take_rest();
        connection.wire.link.start_tls(&rest).await;
        response = read_response(connection).await?;
        connection.session.tls = connection.wire.link.secured();
    }
    connection.wire.capabilities = response.capabilities & hello.capabilities();
    connection.session.count_matched = connection.wire.has(capability::FOUND_ROWS);
    connection.session.interactive = connection.wire.has(capability::INTERACTIVE);
    connection.session.attributes = std::mem::take(&mut response.attributes);
    authenticate(connection, response, greeting).await
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
    let known = [CACHING_SHA2, NATIVE].contains(&response.plugin.as_str());
    if !known && connection.wire.has(capability::PLUGIN_AUTH) {
        connection.wire.write(|out| answer::auth_switch(out, NATIVE, &greeting.nonce));
        response.auth = connection.wire.packet(Some(LOGIN_PATIENCE)).await?;
        response.plugin = NATIVE.to_owned();
    }
    // Old clients end an empty answer with a zero byte.
    let has_password = response.auth.iter().any(|byte| *byte != 0);
    let host = host_of(greeting);
    let here = match &greeting.peer.transport {
        Transport::Unix => true,
        Transport::Tcp { loopback, .. } => *loopback,
    };
    if response.user != "root" || has_password || !here {
        let using = if has_password { "YES" } else { "NO" };
        let user = &response.user;
        let text = format!("Access denied for user '{user}'@'{host}' (using password: {using})");
        return Err(End::Error(SqlError::new(1045, "28000", text)));
    }
    connection.session.user = format!("{}@{host}", response.user);
    connection.session.set_client_collation(response.collation);
    register(connection, greeting, &response.user, &host);
    if let Some(database) = &response.database {
        crate::administration::use_database(&mut connection.session, database)
            .map_err(End::Error)?;
        // What the client asked for is no news.
        connection.session.take_state_changes();
    }
    connection.answer(Ok(crate::result::Outcome::default()), false);
    Ok(())
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
        command: "Sleep",
        since: connection.session.kernel.now(),
        state: "",
        info: None,
    };
    let mut registry = connection.session.shared.directory.lock();
    registry.processes.insert(greeting.number, process);
    let open = registry.processes.len() as u32;
    registry.counters.connections_peak = registry.counters.connections_peak.max(open);
}
