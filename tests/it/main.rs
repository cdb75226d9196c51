//! Tests against the real server with real clients.

mod answers;
mod chaos;
mod clients;
mod connectors;
mod differential;
mod dump;
mod durability;
mod explain;
mod foreign_keys;
mod fuzz;
mod hosts;
mod large;
mod load;
mod logic;
mod processes;
mod pushdown;
mod scripts;
mod server;
mod sysbench;
mod threads;
mod tls;
mod tpcc;
mod tpch;
mod versions;
mod watch;
mod workload;
