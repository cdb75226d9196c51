//! SQL in the simulated world: SQL nodes as they serve in production, and clients that ask them in
//! MySQL's protocol while faults strike.
//!
//! # Owns
//! What SQL clients do, what they must find, and the books of it ([`SqlBook`]). Clients and books
//! outlive the SQL nodes.
//! # Guarantees
//! The parser, the planner, the executors and the bytes to data nodes are those of production.
//! # Not here
//! What applications do that use the client library (`workload`), faults (`chaos`).

mod application;
mod archives;
mod backups;
mod bank;
mod bulk;
mod clients;
mod counters;
mod families;
mod files;
mod hall;
mod levels;
mod mysql;
mod online;
mod protocol;
mod registers;
mod scratch;
mod tickets;
mod values;

use std::collections::BTreeMap;
use std::rc::Rc;

use stdx::{Duration, Prng};

use crate::lab::{Lab, Phase, TaskName};
use crate::workload::Load;
use crate::workload::registers::RegisterBook;
pub use application::SqlApplication;
use clients::ClientFactory;
pub use clients::Clients;
pub use mysql::{Failure, Mysql};
use protocol::Answer;

/// Makes the draws of the clients differ from others of the seed.
const CLIENTS_DRAW: u64 = 0x5C1;

/// The number of the first client that makes backups.
const BACKUPS_FROM: usize = 100;

/// What clients do: the workload, how many do it, and the share of the runs in which they do.
const KINDS: [(&str, usize, u64); 12] = [
    ("sql bank", 2, 100),
    ("sql bulk", 2, 60),
    ("sql counters", 1, 100),
    ("sql families", 2, 80),
    ("sql hall", 2, 50),
    ("sql kill", 1, 60),
    ("sql levels", 3, 60),
    ("sql online", 2, 80),
    ("sql registers", 2, 60),
    ("sql scratch", 1, 50),
    ("sql tickets", 2, 70),
    ("sql values", 1, 80),
];

/// The tables of all workloads.
const TABLES: [&[&str]; 11] = [
    bank::TABLES,
    bulk::TABLES,
    counters::TABLES,
    families::TABLES,
    hall::TABLES,
    levels::TABLES,
    online::TABLES,
    registers::TABLES,
    scratch::TABLES,
    tickets::TABLES,
    values::TABLES,
];

/// What SQL clients have done, as far as it is known.
#[derive(Debug, Default)]
pub struct SqlBook {
    prepared: bool,
    audited: bool,
    counters: BTreeMap<usize, counters::Count>,
    tickets: tickets::Tickets,
    /// The files of backups of the SQL node's host.
    files: files::Host,
    archive: archives::Book,
    registers: RegisterBook,
    levels: levels::Levels,
    hall: hall::Hall,
}

impl SqlBook {
    /// The tables are made.
    pub fn is_prepared(&self) -> bool {
        self.prepared
    }

    /// All has been looked at once the sessions had ended.
    pub fn is_audited(&self) -> bool {
        self.audited
    }
}

/// The clients of all SQL nodes of a run; none where there are no SQL nodes.
pub fn clients(lab: &Rc<Lab>, load: &Load) -> Clients {
    let mut factories: Vec<ClientFactory> = Vec::new();
    let mut prng = Prng::new(load.seed ^ CLIENTS_DRAW);
    if let Some(node) = load.sql.first().copied() {
        let (first, of_first) = (lab.clone(), load.clone());
        factories.push(Box::new(move |mysql| Box::pin(prepare_and_audit(mysql, first, of_first))));
        let drawn = KINDS.into_iter().filter(|(_, _, share)| prng.percent(*share));
        let drawn = drawn.flat_map(|(kind, count, _)| std::iter::repeat_n(kind, count));
        let of_backups = if load.backups { backups::CLIENTS } else { 0 };
        let of_backups = std::iter::repeat_n("sql backups", of_backups);
        let of_archive = load.archives.then_some((archives::TASK, "sql archives"));
        let tasks = drawn.enumerate().chain((BACKUPS_FROM..).zip(of_backups)).chain(of_archive);
        for (task, kind) in tasks.collect::<Vec<_>>() {
            let (lab, load) = (lab.clone(), load.clone());
            let name = TaskName { node, task };
            factories.push(Box::new(move |mysql| Box::pin(work(mysql, lab, load, name, kind))));
        }
    }
    lab.sql.borrow().files.seed(load.seed);
    Clients::new(lab.clone(), &mut prng, factories)
}

/// One client: waits for the tables, then does rounds until the run ends.
async fn work(mysql: Mysql, lab: Rc<Lab>, load: Load, name: TaskName, kind: &'static str) {
    lab.begin_task(name, kind);
    while lab.phase() < Phase::Working {
        mysql.sleep(Duration::from_millis(5)).await;
    }
    let mut connected = false;
    let mut own = None;
    while lab.works() {
        let round = async {
            if !connected || mysql.percent(2) {
                mysql.connect().await?;
                mysql.query("USE sq").await?;
            }
            match kind {
                "sql archives" => archives::round(&mysql, &lab).await,
                "sql backups" => backups::round(&mysql, &lab, name.task).await,
                "sql bank" => bank::round(&mysql).await,
                "sql bulk" => bulk::round(&mysql, &lab).await,
                "sql counters" => counters::round(&mysql, &lab, name.task).await,
                "sql families" => families::round(&mysql).await,
                "sql hall" => hall::round(&mysql, &lab).await,
                "sql kill" => kill(&mysql).await,
                "sql levels" => levels::round(&mysql, &lab).await,
                "sql online" => online::round(&mysql).await,
                "sql registers" => registers::round(&mysql, &lab, &mut own).await,
                "sql scratch" => scratch::round(&mysql).await,
                "sql tickets" => tickets::round(&mysql, &lab, name.task).await,
                "sql values" => values::round(&mysql).await,
                other => panic!("no such workload: {other}"),
            }
        };
        match round.await {
            Ok(()) => {
                connected = true;
                lab.round(name);
            }
            Err(failure) => {
                // 1156: KILL QUERY in the middle of a file that the client sends.
                let is_explained = (kind == "sql backups" && backups::passes(&failure))
                    || (kind == "sql archives" && archives::passes(&failure))
                    || (kind == "sql bulk" && failure.code() == 1156);
                assert!(passes(&failure) || is_explained, "{kind}: {failure}");
                // A connection that stands is kept: what is open in it is undone.
                connected = failure != Failure::Lost
                    && failure.code() != 1156
                    && mysql.query("ROLLBACK").await.is_ok();
                mysql.pause(20).await;
            }
        }
        mysql.pause(load.pause_max.as_millis().max(1)).await;
    }
    mysql.quit().await;
    lab.end_task(name);
}

/// Whether an error says no more than that the same may work another time.
pub(crate) fn passes(failure: &Failure) -> bool {
    match failure.code() {
        // Shutdown, killed, lock wait, deadlock, lost, the cluster cannot now or does not say.
        1053 | 1317 | 1205 | 1213 | 2013 | 1297 | 1296 => true,
        // Nodes with little memory or a full disk refuse what adds rows; a table has changed.
        1114 | 1197 | 1412 | 1021 => true,
        _ => false,
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Committed,
    Aborted,
    Unknown,
}

/// What the answer to a COMMIT, or to a statement that commits by itself, says.
pub(crate) fn ended<T>(answer: &Result<T, Failure>) -> Ended {
    match answer {
        Ok(_) => Ended::Committed,
        Err(Failure::Lost) => Ended::Unknown,
        Err(failure) if failure.code() == 1296 => Ended::Unknown,
        Err(_) => Ended::Aborted,
    }
}

/// Reads as of one snapshot.
pub(crate) async fn snapshot<const N: usize>(
    mysql: &Mysql,
    queries: [&str; N],
) -> Result<[Answer; N], Failure> {
    mysql.query("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    let mut found = Vec::with_capacity(N);
    for query in queries {
        found.push(mysql.query(query).await?);
    }
    mysql.query("COMMIT").await?;
    Ok(found.try_into().expect("one of each query"))
}

/// Ends statements and connections of others, whatever they do.
async fn kill(mysql: &Mysql) -> Result<(), Failure> {
    let own = mysql.query("SELECT CONNECTION_ID()").await?.int(0, 0);
    let list = mysql.query("SHOW PROCESSLIST").await?;
    let rows = list.rows.len();
    let victim = list.int(mysql.below(rows as u64) as usize, 0);
    if victim != own {
        let what = if mysql.percent(70) { "QUERY " } else { "" };
        match mysql.query(&format!("KILL {what}{victim}")).await {
            // It has gone meanwhile.
            Err(failure) if failure.code() == 1094 => {}
            other => drop(other?),
        }
    }
    mysql.pause(100).await;
    Ok(())
}

/// Runs what must succeed in a calm cluster, however long that takes.
async fn insist(mysql: &Mysql, statement: &str) {
    loop {
        match mysql.query(statement).await {
            Ok(_) => return,
            // It has been done, and the answer was lost.
            Err(failure) if [1007, 1050].contains(&failure.code()) => return,
            Err(failure) => assert!(passes(&failure), "{statement}: {failure}"),
        }
        mysql.pause(50).await;
        if mysql.query("SELECT 1").await.is_err() {
            let _connected = mysql.connect().await;
        }
    }
}

/// The client that makes the tables before all others, and looks at them after all others.
async fn prepare_and_audit(mysql: Mysql, lab: Rc<Lab>, load: Load) {
    if lab.phase() == Phase::Preparing {
        while mysql.connect().await.is_err() || mysql.query("CREATE DATABASE sq").await.is_err() {
            mysql.pause(50).await;
        }
        insist(&mysql, "CREATE DATABASE IF NOT EXISTS sq").await;
        // With the first account `root` gets into the catalog: others change accounts too.
        insist(&mysql, "CREATE USER IF NOT EXISTS sq@localhost").await;
        for statement in TABLES.into_iter().flatten() {
            insist(&mysql, statement).await;
        }
        lab.sql.borrow_mut().registers.prepare();
        lab.sql.borrow_mut().prepared = true;
    }
    while lab.phase() < Phase::Auditing {
        mysql.sleep(Duration::from_millis(10)).await;
    }
    while !lab.sql.borrow().audited {
        let audit = async {
            mysql.connect().await?;
            mysql.query("USE sq").await?;
            bank::check(&mysql).await?;
            bulk::check(&mysql).await?;
            families::check(&mysql).await?;
            levels::check(&mysql, &lab).await?;
            online::check(&mysql).await?;
            registers::check(&mysql, &lab).await?;
            values::check(&mysql).await?;
            counters::check(&mysql, &lab).await?;
            tickets::check(&mysql, &lab).await?;
            if load.backups {
                backups::check(&mysql, &lab, BACKUPS_FROM).await?;
            }
            if load.archives {
                archives::check(&mysql, &lab, load.ample_streams).await?;
            }
            Ok(())
        };
        match audit.await {
            Ok(()) => lab.sql.borrow_mut().audited = true,
            Err(failure) => assert!(passes(&failure), "audit of SQL: {failure}"),
        }
        mysql.pause(50).await;
    }
}
