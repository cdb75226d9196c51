//! What clients do: workloads whose results can be judged.
//!
//! # Owns
//! The tables of a run, who does what on which client node, the audit at the end.
//! # Not here
//! Faults (`chaos`), rules of the cluster itself (`checkers`).

pub mod audit;
pub mod bank;
mod copies;
pub mod counters;
mod crowd;
mod doubt;
mod families;
pub mod grants;
pub mod inspect;
mod large;
pub mod ledger;
pub mod levels;
pub mod lists;
pub mod names;
pub mod registers;
pub mod ring;
pub mod schema;
pub mod singles;
mod storm;
pub mod streams;
mod sweeps;

use std::rc::Rc;

use actor::Actor;
use client::{ClientOperation, ScanSpec};
use model::{ClusterState, Epoch, ErrorCode, Refusal, SchemaChange, TableId, Value};
use stdx::{Duration, Prng};

use crate::lab::{Lab, Phase, TaskName};
use crate::session::{Application, Ended, Session, TaskFactory, is_passing};
use crate::setup::Setup;
use crate::sql::SqlApplication;
use crate::world::{ApplicationFactory, ApplicationPlace};

/// Sessions of each client node that work.
const SESSIONS_MAX: u64 = 5;

/// Share of the runs in which tables are copied. It is drawn apart, so that the others are what
/// they would be without.
const COPIES_PERCENT: u64 = 50;
/// Makes that draw differ from others of the seed, and leaves alone those that are known to notice
/// mutations.
const COPIES_DRAW: u64 = 0x9CE;

/// The same for two sessions on each client node that write rows which refer to others, and two
/// that write values beside their rows.
const FAMILIES_PERCENT: u64 = 50;
const FAMILIES_DRAW: u64 = 0xFA3;
/// The same for a catalog of many tables.
const CROWD_PERCENT: u64 = 3;
const CROWD_DRAW: u64 = 0xC0D;
const LARGE_PERCENT: u64 = 40;
const LARGE_DRAW: u64 = 0x1A6;
/// Two sessions on each client node that change one row at a time.
const SINGLES_PERCENT: u64 = 60;
const SINGLES_DRAW: u64 = 0x51E;
/// Two sessions on each client node that keep histories of rows.
const REGISTERS_PERCENT: u64 = 50;
const REGISTERS_DRAW: u64 = 0x4E6;
/// Two sessions on each client node that keep histories of isolation levels.
const LEVELS_PERCENT: u64 = 50;
const LEVELS_DRAW: u64 = 0x1E5;
/// Three sessions on each client node that lock few rows in any order.
const STORM_PERCENT: u64 = 30;
const STORM_DRAW: u64 = 0x570;
/// Two sessions of the first client node that change all rows of a table in one transaction.
const SWEEPS_PERCENT: u64 = 60;
const SWEEPS_DRAW: u64 = 0x5EE;

/// A session of the first client node that subscribes to a change stream. It leaves alone the seeds
/// that are known to notice other mutations.
const STREAMS_PERCENT: u64 = 30;
pub(crate) const STREAMS_DRAW: u64 = 0x670;
/// Bytes and epochs that participants keep for a stream where they have room.
pub(crate) const AMPLE_STREAMS: (u64, u32) = (64 << 20, 1_000_000);

/// A session on each client node that changes accounts.
const GRANTS_PERCENT: u64 = 40;
const GRANTS_DRAW: u64 = 0x64A;
/// Two clients of the SQL node that make backups and restore them.
const BACKUPS_PERCENT: u64 = 50;
const BACKUPS_DRAW: u64 = 0xB02;
/// A client of the SQL node that restores states of epochs from an archive. It leaves alone the
/// seeds that are known to notice other mutations.
const ARCHIVES_PERCENT: u64 = 25;
const ARCHIVES_DRAW: u64 = 0xBB3;

/// What a session may do.
const KINDS: [&str; 7] = ["bank", "lists", "ledger", "names", "ring", "schema", "counters"];

/// How much is done, and by whom.
#[derive(Clone, Debug)]
pub struct Load {
    /// Decides who does what.
    pub seed: u64,
    /// The first client node: it also prepares and audits.
    pub first_client: model::NodeId,
    /// Accounts of the bank.
    pub accounts: u64,
    /// Nodes of the ring.
    pub ring: u64,
    /// Longest pause between two rounds of a session.
    pub pause_max: Duration,
    /// How long a session sometimes stands idle with rows locked; zero for never.
    pub idle: Duration,
    /// A session of the first client node copies tables that others write to.
    pub copies: bool,
    /// Sessions of each client node keep foreign keys.
    pub families: bool,
    /// There are many tables that nobody uses.
    pub crowd: bool,
    /// Sessions of each client node keep values beside their rows.
    pub large: bool,
    /// Sessions of each client node change one row at a time.
    pub singles: bool,
    /// Sessions of each client node keep histories of rows.
    pub registers: bool,
    /// Sessions of each client node keep histories of isolation levels.
    pub levels: bool,
    /// Sessions of each client node lock few rows in any order.
    pub storm: bool,
    /// A session of each client node changes accounts.
    pub grants: bool,
    /// Two sessions of the first client node change all rows of a table at a time.
    pub sweeps: bool,
    /// A session of the first client node subscribes to a change stream.
    pub streams: bool,
    /// Participants have room for all changes that a subscriber can leave for later.
    pub ample_streams: bool,
    /// The client nodes that are SQL nodes.
    pub sql: Vec<model::NodeId>,
    /// Clients of SQL nodes make backups and restore them.
    pub backups: bool,
    /// A client of SQL nodes restores states of epochs from an archive.
    pub archives: bool,
    /// Tables of SQL move between node groups: no session that does not use SQL makes tables, which
    /// would stay in a group that is to be dropped.
    pub moves: bool,
    /// What the sessions of each client node do; drawn when empty.
    pub kinds: Vec<&'static str>,
}

impl Load {
    /// The load of a drawn cluster.
    pub fn random(setup: &Setup) -> Self {
        let (seed, config) = (setup.seed, &setup.config);
        // Others wait for the locks longer than they wait for an answer, where they may.
        let late = config.request_timeout + Duration::from_millis(100);
        let idle =
            if late < config.lock_timeout { late.times(3).divided_by(2) } else { Duration::ZERO };
        let mut prng = Prng::new(seed ^ 0x10AD);
        Self {
            seed,
            first_client: setup.client_nodes().next().expect("a run has clients"),
            idle,
            accounts: *prng.pick(&[3, 10, 40]),
            ring: prng.between(5, 12),
            pause_max: Duration::from_millis(*prng.pick(&[2, 10, 40])),
            copies: !setup.moves && Prng::new(seed ^ COPIES_DRAW).percent(COPIES_PERCENT),
            families: Prng::new(seed ^ FAMILIES_DRAW).percent(FAMILIES_PERCENT),
            crowd: Prng::new(seed ^ CROWD_DRAW).percent(CROWD_PERCENT),
            large: Prng::new(seed ^ LARGE_DRAW).percent(LARGE_PERCENT),
            singles: Prng::new(seed ^ SINGLES_DRAW).percent(SINGLES_PERCENT),
            registers: Prng::new(seed ^ REGISTERS_DRAW).percent(REGISTERS_PERCENT),
            levels: Prng::new(seed ^ LEVELS_DRAW).percent(LEVELS_PERCENT),
            storm: Prng::new(seed ^ STORM_DRAW).percent(STORM_PERCENT),
            grants: Prng::new(seed ^ GRANTS_DRAW).percent(GRANTS_PERCENT),
            // A scan of many partitions needs so many at once.
            sweeps: config.scans_max >= sweeps::SCANS_MIN
                && Prng::new(seed ^ SWEEPS_DRAW).percent(SWEEPS_PERCENT),
            streams: Prng::new(seed ^ STREAMS_DRAW).percent(STREAMS_PERCENT),
            ample_streams: config.buffered_epochs >= AMPLE_STREAMS.1,
            sql: setup.sql_nodes(),
            backups: Prng::new(seed ^ BACKUPS_DRAW).percent(BACKUPS_PERCENT),
            archives: Prng::new(seed ^ ARCHIVES_DRAW).percent(ARCHIVES_PERCENT),
            moves: setup.moves,
            kinds: Vec::new(),
        }
    }
}

/// Makes the applications of all client nodes.
pub fn applications(lab: Rc<Lab>, load: Load) -> ApplicationFactory {
    let clients = Rc::new(crate::sql::clients(&lab, &load));
    Box::new(move |place| {
        if load.sql.contains(&place.node) {
            return Box::new(SqlApplication::new(&place, clients.clone()));
        }
        application(&lab, &load, &place)
    })
}

fn application(lab: &Rc<Lab>, load: &Load, place: &ApplicationPlace) -> Box<dyn Actor> {
    let mut prng = Prng::new(place.seed);
    let kinds: Vec<&'static str> = if load.kinds.is_empty() {
        // Each client node begins elsewhere, so that few nodes cover all kinds; in each of its
        // lives it does the same.
        let position = u64::from(place.node.0 - load.first_client.0);
        let count = Prng::new(load.seed ^ position).between(3, SESSIONS_MAX);
        let from = position * 3;
        let drawn = (from..from + count).map(|at| KINDS[at as usize % KINDS.len()]);
        let drawn = drawn.filter(|kind| !(load.moves && *kind == "schema"));
        // Sessions that write wait for the cluster: one that reads sees what it should not see.
        let copies = (load.copies && place.node == load.first_client).then_some("copies");
        let pair = |wanted: bool, kind| std::iter::repeat_n(kind, if wanted { 2 } else { 0 });
        let storm = std::iter::repeat_n("storm", if load.storm { 3 } else { 0 });
        let apart = pair(load.families, "families")
            .chain(pair(load.large, "large"))
            .chain(pair(load.singles, "singles"))
            .chain(pair(load.registers, "registers"))
            .chain(storm)
            .chain(load.grants.then_some("grants"))
            .chain((load.streams && place.node == load.first_client).then_some("streams"))
            .chain(pair(load.levels, "levels"))
            .chain(pair(load.sweeps && place.node == load.first_client, "sweeps"));
        drawn.chain(["watch", "inspect"]).chain(copies).chain(apart).collect()
    } else {
        load.kinds.clone()
    };
    let mut tasks: Vec<TaskFactory> = Vec::new();
    for (at, kind) in kinds.into_iter().enumerate() {
        let (lab, load) = (lab.clone(), load.clone());
        let name = TaskName { node: place.node, task: at };
        tasks.push(Box::new(move |session| Box::pin(work(session, lab, load, name, kind))));
    }
    if place.node == load.first_client {
        let (lab, load) = (lab.clone(), load.clone());
        tasks.push(Box::new(move |session| Box::pin(prepare_and_audit(session, lab, load))));
    }
    Box::new(Application::new(&place.ambient, &mut prng, tasks))
}

/// One session: waits for the tables, then does rounds until the run ends.
async fn work(session: Session, lab: Rc<Lab>, load: Load, name: TaskName, kind: &'static str) {
    lab.begin_task(name, kind);
    // The client must have heard of the tables itself: another one has made them.
    while lab.phase() < Phase::Working || !knows_tables(&session, &lab) {
        session.sleep(Duration::from_millis(5)).await;
    }
    let mut ledger = ledger::Owner::new(&lab);
    let mut schema = schema::Maker::new(&lab);
    let mut singles = singles::Owner::default();
    let mut registers = registers::Owner::default();
    while lab.works() {
        let done = match kind {
            "bank" => bank::round(&session, &lab, &load).await,
            "copies" => copies::round(&session, &lab).await,
            "families" => families::round(&session, &lab).await,
            "grants" => grants::round(&session, &lab).await,
            "large" => large::round(&session, &lab).await,
            "counters" => counters::round(&session, &lab).await,
            "levels" => levels::round(&session, &lab).await,
            "lists" => lists::round(&session, &lab).await,
            "watch" => lists::watch(&session, &lab).await,
            "inspect" => inspect::round(&session, &lab).await,
            "ledger" => ledger.round(&session, &lab).await,
            "names" => names::round(&session, &lab).await,
            "registers" => registers.round(&session, &lab).await,
            "ring" => ring::round(&session, &lab, &load).await,
            "schema" => schema.round(&session, &lab).await,
            "singles" => singles.round(&session, &lab).await,
            "storm" => storm::round(&session, &lab).await,
            "streams" => streams::round(&session, &lab, &load).await,
            "sweeps" => sweeps::round(&session, &lab).await,
            "queue" => storm::queue(&session, &lab).await,
            other => panic!("no such workload: {other}"),
        };
        match done {
            Ok(()) => {
                lab.round(name);
                if let Err(refusal) = session.sometimes_await_durable().await {
                    assert!(is_passing(&refusal), "{kind}: {refusal}");
                }
            }
            Err(refusal) => {
                assert!(is_passing(&refusal), "{kind}: {refusal}");
                session.pause(20).await;
            }
        }
        session.pause(load.pause_max.as_millis().max(1)).await;
    }
    lab.end_task(name);
}

fn knows_tables(session: &Session, lab: &Lab) -> bool {
    lab.tables().into_iter().all(|table| session.definition(table).is_some())
}

/// The extra session of the first client node.
async fn prepare_and_audit(session: Session, lab: Rc<Lab>, load: Load) {
    if lab.phase() == Phase::Preparing {
        while session.table("sim.bank").is_none() && !session.cluster().started {
            session.sleep(Duration::from_millis(10)).await;
        }
        let database =
            SchemaChange::CreateDatabase { name: "sim".into(), description: Default::default() };
        insist(&session, database).await;
        bank::prepare(&session, &lab, &load).await;
        lists::prepare(&session, &lab).await;
        counters::prepare(&session, &lab).await;
        singles::prepare(&session, &lab).await;
        registers::prepare(&session, &lab).await;
        ledger::prepare(&session, &lab).await;
        names::prepare(&session, &lab).await;
        ring::prepare(&session, &lab, &load).await;
        families::prepare(&session, &lab).await;
        large::prepare(&session, &lab).await;
        storm::prepare(&session, &lab).await;
        if load.levels {
            levels::prepare(&session, &lab).await;
        }
        if load.sweeps {
            sweeps::prepare(&session, &lab).await;
        }
        if load.crowd {
            crowd::prepare(&session).await;
        }
        while !load.sql.is_empty() && !lab.sql.borrow().is_prepared() {
            session.sleep(Duration::from_millis(10)).await;
        }
        lab.enter(Phase::Working);
    }
    while lab.phase() < Phase::Auditing {
        session.sleep(Duration::from_millis(10)).await;
    }
    if lab.phase() == Phase::Auditing {
        audit::audit(&session, &lab, &load).await;
        if load.grants || load.kinds.contains(&"grants") {
            grants::audit(&session, &lab).await;
        }
        if load.crowd {
            crowd::audit(&session);
        }
        while !load.sql.is_empty() && !lab.sql.borrow().is_audited() {
            session.sleep(Duration::from_millis(10)).await;
        }
        lab.enter(Phase::Audited);
    }
}

/// Changes the catalog, however long that takes.
pub(crate) async fn insist(session: &Session, change: SchemaChange) -> TableId {
    loop {
        match session.schema(change.clone()).await {
            Ok(table) => return table,
            Err(refusal) => assert!(is_passing(&refusal), "{change:?}: {refusal}"),
        }
        session.pause(100).await;
    }
}

/// Writes rows into an empty table in one transaction, however long that takes.
pub(crate) async fn fill(session: &Session, table: TableId, rows: &[Vec<Value>]) {
    let inserts = rows.iter().map(|row| ClientOperation::insert(table, row.clone()));
    insist_on(session, inserts.collect()).await;
}

/// Runs operations as one transaction in a calm cluster, however long that takes.
pub(crate) async fn insist_on(session: &Session, operations: Vec<ClientOperation>) {
    loop {
        match session.autocommit(operations.clone()).await {
            Ended::Committed(..) => return,
            Ended::Aborted(Some(refusal)) => {
                assert!(is_passing(&refusal), "{:?}: {refusal}", operations.first());
            }
            Ended::Aborted(None) => {}
            Ended::Unknown => panic!("{:?}: outcome not known", operations.first()),
        }
        session.pause(100).await;
    }
}

/// The refusal of a transaction that did not commit, if it says no more than "try again".
pub(crate) fn passing(refusal: Option<Refusal>) -> Result<(), Refusal> {
    match refusal {
        Some(refusal) if is_passing(&refusal) => Err(refusal),
        Some(refusal) => panic!("an unexplained refusal: {refusal}"),
        None => Err(ErrorCode::NodeFailed.into()),
    }
}

/// The end of a transaction that nothing stands against but what passes.
pub(crate) fn judged(ended: Ended) -> Result<(), Refusal> {
    match ended {
        Ended::Committed(..) | Ended::Unknown => Ok(()),
        Ended::Aborted(refusal) => passing(refusal),
    }
}

/// The same where it may have met what another session has done meanwhile.
pub(crate) fn judged_unless(
    ended: Ended,
    explained: impl Fn(ErrorCode) -> bool,
) -> Result<(), Refusal> {
    match ended {
        Ended::Aborted(Some(refusal)) if explained(refusal.code) => Ok(()),
        other => judged(other),
    }
}

/// Scans as of one new snapshot: its epoch, and what each has found.
pub(crate) async fn scan_snapshot<const N: usize>(
    session: &Session,
    specs: [ScanSpec; N],
) -> Result<(Epoch, [Vec<Vec<Value>>; N]), Refusal> {
    let epoch = session.open_snapshot().await?;
    let mut found = Vec::with_capacity(N);
    for spec in specs {
        found.push(session.scan(ScanSpec { snapshot: Some(epoch), ..spec }).await);
    }
    session.close_snapshot(epoch).await;
    let found: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
    Ok((epoch, found.try_into().expect("one of each scan")))
}

/// Whether what committed in an epoch has outlived the restarts of the whole cluster since.
pub(crate) fn is_kept(cluster: &ClusterState, epoch: Epoch) -> bool {
    cluster.restorable(epoch) == epoch
}

/// The integer in a value.
pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(v) => *v,
        other => panic!("an integer, not {other}"),
    }
}

/// The unsigned integer in a value.
pub(crate) fn uint(value: &Value) -> u64 {
    match value {
        Value::UInt(v) => *v,
        other => panic!("an unsigned integer, not {other}"),
    }
}
