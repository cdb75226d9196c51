//! Tests against the real server with real clients.

mod clients;
mod connectors;
mod differential;
mod dump;
mod durability;
mod scripts;
mod server;
mod sysbench;
mod tls;
