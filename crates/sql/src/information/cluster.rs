//! The schema `nines`: the cluster itself, by SQL.
//!
//! # Owns
//! The tables: members and placement, which this process knows by the control log, and what the
//! workers of the data nodes tell when they are asked.
//! # Guarantees
//! A node that does not answer in time is missing in the rows; the others' are shown.

use model::{ClusterState, MemberStatus, NodeId, NodeRole, PartitionId, PartitionIndex};
use sql_expression::SqlError;
use sqltype::Datum;
use wire::Inspection;

use super::schema::node_group;
use crate::catalog::names;
use crate::information::virtual_table::{
    Hints, Kind, Rows, Source, VirtualColumn, VirtualTable, column, nullable, text,
};
use crate::peers::{self, Standing};
use crate::session::Session;

const fn nines(
    name: &'static str,
    columns: &'static [VirtualColumn],
    source: Source,
) -> VirtualTable {
    VirtualTable { schema: "nines", name, columns, source }
}

const NODE: VirtualColumn = column("node_id", Kind::UInt);
const WORKER: VirtualColumn = column("worker", Kind::UInt);
const TABLE_ID: VirtualColumn = column("table_id", Kind::UInt);
const PARTITION: VirtualColumn = column("partition", Kind::UInt);

pub(super) static TABLES: &[VirtualTable] = &[
    nines(
        "nodes",
        &[
            NODE,
            column("role", Kind::Text(16)),
            column("status", Kind::Text(16)),
            column("incarnation", Kind::UBigInt),
            column("workers", Kind::UInt),
            column("joined_at", Kind::UBigInt),
            nullable("node_group", Kind::UInt),
        ],
        Source::Here(nodes),
    ),
    nines(
        "sql_nodes",
        &[
            NODE,
            column("hostname", Kind::Text(255)),
            column("port", Kind::UInt),
            column("version", Kind::Text(64)),
            column("connections", Kind::UBigInt),
            column("running", Kind::UBigInt),
            column("uptime_s", Kind::UBigInt),
        ],
        Source::SqlNodes,
    ),
    nines(
        "partitions",
        &[
            column("table_schema", Kind::Text(64)),
            column("table_name", Kind::Text(64)),
            TABLE_ID,
            PARTITION,
            column("node_group", Kind::UInt),
            nullable("primary_node", Kind::UInt),
            column("replicas", Kind::Text(64)),
            column("syncing", Kind::Text(64)),
        ],
        Source::Here(partitions),
    ),
    nines(
        "replicas",
        &[
            NODE,
            WORKER,
            TABLE_ID,
            PARTITION,
            column("role", Kind::Text(16)),
            column("syncing", Kind::Text(3)),
            column("rows", Kind::UBigInt),
            column("slots", Kind::UBigInt),
            column("bytes", Kind::UBigInt),
        ],
        Source::Replicas,
    ),
    nines(
        "copies",
        &[
            NODE,
            WORKER,
            TABLE_ID,
            PARTITION,
            column("to_node_id", Kind::UInt),
            column("state", Kind::Text(16)),
            column("slots", Kind::UBigInt),
            column("slots_done", Kind::UBigInt),
            column("changed", Kind::UBigInt),
            column("bytes", Kind::UBigInt),
            column("elapsed_us", Kind::UBigInt),
            nullable("left_us", Kind::UBigInt),
        ],
        Source::Workers(Inspection::Copies),
    ),
    nines(
        "moves",
        &[
            column("table_schema", Kind::Text(64)),
            column("table_name", Kind::Text(64)),
            TABLE_ID,
            column("from_groups", Kind::Text(64)),
            column("to_groups", Kind::Text(64)),
            column("state", Kind::Text(16)),
            nullable("node_id", Kind::UInt),
            nullable("connection_id", Kind::UInt),
            nullable("rows_done", Kind::UBigInt),
            nullable("rows_total", Kind::UBigInt),
            nullable("elapsed_us", Kind::UBigInt),
            nullable("left_us", Kind::UBigInt),
            nullable("error", Kind::Text(256)),
        ],
        Source::Moves,
    ),
    nines(
        "index_builds",
        &[
            NODE,
            WORKER,
            TABLE_ID,
            column("index_id", Kind::UInt),
            column("slots", Kind::UBigInt),
            column("slots_done", Kind::UBigInt),
        ],
        Source::Workers(Inspection::IndexBuilds),
    ),
    nines(
        "slow_steps",
        &[
            NODE,
            WORKER,
            column("step", Kind::Text(64)),
            column("count", Kind::UBigInt),
            column("total_us", Kind::UBigInt),
            column("longest_us", Kind::UBigInt),
        ],
        Source::Workers(Inspection::SlowSteps),
    ),
    nines(
        "epochs",
        &[NODE, WORKER, column("epoch", Kind::UBigInt), column("ended_us", Kind::UBigInt)],
        Source::Workers(Inspection::Epochs),
    ),
    nines(
        "disks",
        &[
            NODE,
            WORKER,
            column("stage", Kind::Text(16)),
            nullable("bytes_done", Kind::UBigInt),
            nullable("bytes_total", Kind::UBigInt),
            nullable("left_us", Kind::UBigInt),
            nullable("saved_epoch", Kind::UBigInt),
            nullable("durable_epoch", Kind::UBigInt),
            nullable("unwritten_bytes", Kind::UBigInt),
            nullable("log_segments", Kind::UBigInt),
            column("damaged_files", Kind::UBigInt),
        ],
        Source::Workers(Inspection::Disk),
    ),
    nines(
        "memory",
        &[
            NODE,
            WORKER,
            column("pool", Kind::Text(32)),
            column("used", Kind::UBigInt),
            nullable("limit", Kind::UBigInt),
        ],
        Source::Workers(Inspection::Memory),
    ),
    nines(
        "transactions",
        &[
            NODE,
            WORKER,
            column("transaction", Kind::Text(64)),
            column("state", Kind::Text(32)),
            nullable("client_node_id", Kind::UInt),
            column("operations", Kind::UInt),
            column("waits", Kind::UInt),
            column("idle_us", Kind::UBigInt),
        ],
        Source::Workers(Inspection::Transactions),
    ),
    nines(
        "locks",
        &[
            NODE,
            WORKER,
            TABLE_ID,
            PARTITION,
            column("key_hash", Kind::Text(16)),
            column("transaction", Kind::Text(64)),
            column("mode", Kind::Text(16)),
            column("granted", Kind::Text(3)),
        ],
        Source::Workers(Inspection::Locks),
    ),
    nines(
        "messages",
        &[
            NODE,
            WORKER,
            column("message", Kind::Text(64)),
            column("sent", Kind::UBigInt),
            column("handled", Kind::UBigInt),
        ],
        Source::Workers(Inspection::Messages),
    ),
    nines(
        "recorder",
        &[NODE, WORKER, column("at_us", Kind::UBigInt), column("event", Kind::Text(1024))],
        Source::Workers(Inspection::Recorder),
    ),
];

/// The SQL nodes that answer.
pub(super) async fn sql_nodes(session: &Session) -> Result<Rows, SqlError> {
    let row = |standing: Standing| {
        vec![
            Datum::UInt(standing.node.0.into()),
            text(&standing.hostname),
            Datum::UInt(standing.port),
            text(&standing.version),
            Datum::UInt(standing.connections.0),
            Datum::UInt(standing.connections.1),
            Datum::UInt(standing.uptime.as_millis() / 1_000),
        ]
    };
    Ok(peers::standings(session).await?.into_iter().map(row).collect())
}

fn nodes(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let cluster = session.kernel.cluster();
    let group_of = |node: &NodeId| cluster.groups.iter().position(|group| group.contains(node));
    let rows = cluster.members.iter().map(|(node, member)| {
        let role = match member.role {
            NodeRole::Data => "data",
            NodeRole::Management => "management",
        };
        let status = match member.status {
            MemberStatus::Joining => "joining",
            MemberStatus::Restoring => "restoring",
            MemberStatus::Syncing => "syncing",
            MemberStatus::Active => "active",
            MemberStatus::Leaving => "leaving",
        };
        vec![
            Datum::UInt(node.0.into()),
            text(role),
            text(status),
            Datum::UInt(member.incarnation.0),
            Datum::UInt(member.workers.into()),
            Datum::UInt(member.joined_at.0),
            group_of(node).map_or(Datum::Null, |group| Datum::UInt(group as u64)),
        ]
    });
    Ok(rows.collect())
}

fn partitions(session: &Session, _: &Hints) -> Result<Rows, SqlError> {
    let cluster = session.kernel.cluster();
    let mut rows = Vec::new();
    if cluster.slots.is_empty() {
        return Ok(rows);
    }
    for database in cluster.databases.keys() {
        for (name, table) in names::tables_of(&cluster, database) {
            for at in 0..table.partition_count {
                let partition = PartitionId { table: table.id, index: PartitionIndex(at) };
                let mut row = vec![
                    text(database),
                    text(name),
                    Datum::UInt(table.id.0.into()),
                    Datum::UInt(at.into()),
                    Datum::UInt(node_group(&cluster, table, at).into()),
                ];
                row.extend(replicas(&cluster, partition));
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

/// The primary's node, all complete replicas' in chain order, those being copied.
fn replicas(cluster: &ClusterState, partition: PartitionId) -> [Datum; 3] {
    let replicas = &cluster.slot_of(partition).replicas;
    let list = |syncing: bool| {
        let nodes = replicas.iter().filter(|replica| replica.syncing == syncing);
        text(nodes.map(|replica| replica.node.0.to_string()).collect::<Vec<String>>().join(","))
    };
    let primary = cluster.primary(partition);
    let primary = primary.map_or(Datum::Null, |address| Datum::UInt(address.node.0.into()));
    [primary, list(false), list(true)]
}
