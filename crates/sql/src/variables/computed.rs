//! Variables whose values are found when they are asked for.
//!
//! # Owns
//! What the server is called and where it listens, what the session has counted, the character set
//! of the default database.
//! # Not here
//! Values that SET gives (`variables`).

use super::VERSION;
use crate::session::Session;

/// What the server was compiled for.
const MACHINE: &str = match () {
    () if cfg!(target_arch = "x86_64") => "x86_64",
    () if cfg!(target_arch = "aarch64") => "aarch64",
    () => "unknown",
};

/// The value of such a variable, none for NULL; nothing for other variables.
pub(crate) fn value(session: &Session, name: &str, global: bool) -> Option<Option<String>> {
    let address = &session.shared.address;
    let value = match name {
        "log_bin" => switch(session.kernel.keeps_binlog()),
        // All transactions of a log have a GTID.
        "enforce_gtid_consistency" | "gtid_mode" if session.kernel.keeps_binlog() => switch(true),
        "log_bin_basename" if session.kernel.keeps_binlog() => "binlog".to_owned(),
        "gtid_executed" => session.gtids.as_ref().map(|(executed, _)| executed.clone())?,
        "gtid_purged" => session.gtids.as_ref().map(|(_, purged)| purged.clone())?,
        "basedir" => "/usr/".to_owned(),
        "datadir" => address.directory.clone(),
        "global_connection_memory_limit" => session.shared.directory.memory().limit().to_string(),
        "hostname" => address.hostname.clone(),
        "pid_file" => match address.directory.as_str() {
            "" => String::new(),
            directory => format!("{}/nines.pid", directory.trim_end_matches('/')),
        },
        "port" | "report_port" => address.port.to_string(),
        "socket" => address.socket.clone(),
        "have_ssl" | "have_openssl" => {
            let is_offered = session.shared.admission.encryption_facts().is_offered;
            if is_offered { "YES" } else { "DISABLED" }.to_owned()
        }
        "mysql_native_password" => {
            if session.shared.admission.native_password { "ON" } else { "OFF" }.to_owned()
        }
        "open_files_limit" => "1048576".to_owned(),
        "secure_file_priv" => {
            let files = session.shared.admission.files.as_ref();
            return Some(files.map(|files| files.directory().to_owned()));
        }
        "server_uuid" => server_uuid(&address.hostname, address.port),
        "system_time_zone" => "UTC".to_owned(),
        "version" => VERSION.to_owned(),
        "version_comment" => "Nines".to_owned(),
        "version_compile_machine" => MACHINE.to_owned(),
        "version_compile_os" => "Linux".to_owned(),
        "character_set_database" if !global => {
            session.default_database_collation().charset().name().to_owned()
        }
        "collation_database" if !global => session.default_database_collation().name().to_owned(),
        "error_count" => session.diagnostics.error_count.to_string(),
        "warning_count" => {
            let diagnostics = &session.diagnostics;
            (diagnostics.warning_count + diagnostics.error_count).to_string()
        }
        "identity" | "last_insert_id" => session.last_insert_id.to_string(),
        "nines_last_commit_epoch" => {
            session.kernel.commits().last.unwrap_or_default().0.to_string()
        }
        "pseudo_thread_id" => session.id.to_string(),
        "statement_id" => "0".to_owned(),
        "timestamp" => {
            let micros = session.variables.timestamp.unwrap_or(session.statement_time);
            format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000))
        }
        _ => return None,
    };
    Some(Some(value))
}

fn switch(on: bool) -> String {
    if on { "ON" } else { "OFF" }.to_owned()
}

/// A name for the server that no other of the cluster has: made of its address.
fn server_uuid(hostname: &str, port: u16) -> String {
    let hash = model::key::local_hash(format!("{hostname}:{port}").as_bytes());
    let node = hash & 0xFFFF_FFFF_FFFF;
    format!("{:08x}-{:04x}-4000-8000-{node:012x}", (hash >> 32) as u32, hash >> 48)
}
