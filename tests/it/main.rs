//! Tests against the real server with real clients.

mod chaos;
mod clients;
mod connectors;
mod differential;
mod dump;
mod durability;
mod foreign_keys;
mod hosts;
mod load;
mod mariadb;
mod processes;
mod pushdown;
mod scripts;
mod server;
mod sysbench;
mod threads;
mod tls;
mod versions;
mod watch;
mod workload;
