//! What a node is sent when it comes back: a table, a node that is away while some of its rows
//! change, and the count of what is copied to it afterwards.
//!
//! # Owns
//! The story and its figures; as a test with few rows, as `sim rejoin` with as many as wanted.
//! # Not here
//! Whether the replicas are equal afterwards: all other runs look at that.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use client::ClientOperation;
use model::{ColumnId, ColumnType, Expression, SchemaChange, TableId, Value};
use stdx::Duration;
use testing::BIGINT;
use wire::Inspection;

use crate::scenario::{client, data};
use crate::session::{Application, Session, TaskFactory};
use crate::setup::Setup;
use crate::workload::{fill, insist, insist_on};
use crate::world::World;

/// Rows of a transaction.
const BATCH: u64 = 100;
/// Sessions that write.
const SESSIONS: u64 = 4;
/// Bytes of a row's text, so that rows are as long as sysbench's.
const TEXT: u16 = 170;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Rejoin {
    /// Rows of the table.
    pub rows: u64,
    /// One in so many is changed while the node is away.
    pub every: u64,
    /// Whether the node's disk is replaced by an empty one.
    pub wiped: bool,
}

/// What was copied to the node that came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejoined {
    /// Rows that were changed meanwhile.
    pub changed: u64,
    /// Slots that were sent.
    pub sent: u64,
    /// Bytes of the rows in them.
    pub sent_bytes: u64,
    /// Bytes of all rows.
    pub bytes: u64,
}

impl fmt::Display for Rejoined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changed, sent, sent_bytes, bytes } = self;
        let percent = *sent_bytes as f64 * 100.0 / (*bytes).max(1) as f64;
        write!(
            f,
            "{changed} rows changed, {sent} slots sent, {sent_bytes} of {bytes} bytes, \
             {percent:.2} %"
        )
    }
}

/// How far the story is, by the numbers of sessions that have done their part.
#[derive(Debug, Default)]
struct Story {
    table: Cell<Option<TableId>>,
    filled: Cell<u64>,
    change: Cell<bool>,
    changed: Cell<u64>,
    ask: Cell<bool>,
    told: RefCell<Option<Rejoined>>,
}

/// Tells the story.
///
/// # Panics
/// When the cluster does not do its part in time.
pub fn tell(rejoin: Rejoin) -> Rejoined {
    let Rejoin { rows, every, wiped } = rejoin;
    let mut setup = Setup::new(2, 1).disks().configure(|config| {
        config.data_memory = u64::MAX;
        config.start_partial_timeout = Duration::from_secs(1);
    });
    // Looking at all rows again and again would take longer than the story.
    setup.check_every = u64::MAX;
    let story = Rc::new(Story::default());
    let mut world = World::new(setup, {
        let story = story.clone();
        Box::new(move |place| {
            let mut prng = stdx::Prng::new(place.seed);
            let sessions = if place.node == client(1) { SESSIONS } else { 0 };
            let task = |at| -> TaskFactory {
                let story = story.clone();
                Box::new(move |session| Box::pin(play(session, story, rejoin, at)))
            };
            let tasks = (0..sessions).map(task).collect();
            Box::new(Application::new(&place.ambient, &mut prng, tasks))
        })
    });
    world.supervise(false);
    within(&mut world, "the table is filled", |_| story.filled.get() == SESSIONS);
    // The node has everything on its disk.
    world.run_for(Duration::from_secs(3));
    world.crash(data(2));
    within(&mut world, "it is removed", |world| {
        !world.newest_state().members.contains_key(&data(2))
    });
    story.change.set(true);
    within(&mut world, "rows are changed", |_| story.changed.get() == SESSIONS);
    if wiped {
        world.restart_wiped(data(2));
    } else {
        world.restart(data(2));
    }
    within(&mut world, "the node is back", World::all_active);
    story.ask.set(true);
    within(&mut world, "it is told", |_| story.told.borrow().is_some());
    let told = story.told.take().expect("waited for above");
    Rejoined { changed: rows.div_ceil(every), ..told }
}

fn within(world: &mut World, what: &str, done: impl Fn(&World) -> bool) {
    let reached = world.run_until(Duration::from_secs(3_600), done);
    assert!(reached, "not in time: {what}\n{}", world.describe());
}

async fn play(session: Session, story: Rc<Story>, rejoin: Rejoin, at: u64) {
    if at == 0 {
        while !session.cluster().started {
            session.sleep(Duration::from_millis(10)).await;
        }
        let database =
            SchemaChange::CreateDatabase { name: "sim".into(), description: Default::default() };
        insist(&session, database).await;
        let table = testing::table("sim.wide")
            .column("id", BIGINT)
            .column("k", BIGINT)
            .column("text", ColumnType::Fixed(TEXT));
        story.table.set(Some(insist(&session, table.create()).await));
    }
    let table = loop {
        match story.table.get().filter(|table| session.definition(*table).is_some()) {
            Some(table) => break table,
            None => session.sleep(Duration::from_millis(10)).await,
        }
    };
    let text = Value::Bytes(vec![7; usize::from(TEXT)].into());
    let row = |id: u64| vec![Value::Int(id as i64), Value::Int(0), text.clone()];
    let mut first = at * BATCH;
    while first < rejoin.rows {
        let batch: Vec<_> = (first..rejoin.rows.min(first + BATCH)).map(row).collect();
        fill(&session, table, &batch).await;
        first += SESSIONS * BATCH;
    }
    story.filled.set(story.filled.get() + 1);
    while !story.change.get() {
        session.sleep(Duration::from_millis(10)).await;
    }
    let changed: Vec<u64> = (0..rejoin.rows).step_by(rejoin.every as usize).collect();
    for batch in changed.chunks(BATCH as usize).skip(at as usize).step_by(SESSIONS as usize) {
        change(&session, table, batch).await;
    }
    story.changed.set(story.changed.get() + 1);
    if at > 0 {
        return;
    }
    while !story.ask.get() {
        session.sleep(Duration::from_millis(10)).await;
    }
    let definition = session.definition(table).expect("nobody drops it");
    let length = definition.layout().encode_values(&row(0)).expect("the row fits").0.len() as u64;
    let mut told = Rejoined { bytes: length * rejoin.rows, ..Rejoined::default() };
    let answers = session.inspect(Inspection::Copies, None).await.expect("all nodes are there");
    for row in answers.iter().flat_map(|answer| &answer.rows) {
        let [of, _, to, _, _, _, sent, bytes, ..] = row.as_slice() else { panic!("{row:?}") };
        let (Value::UInt(sent), Value::UInt(bytes)) = (sent, bytes) else { panic!("{row:?}") };
        if (of, to) == (&Value::UInt(table.0.into()), &Value::UInt(data(2).0.into())) {
            told.sent += sent;
            told.sent_bytes += bytes;
        }
    }
    story.told.replace(Some(told));
}

/// Changes these rows, however often that has to be tried.
async fn change(session: &Session, table: TableId, ids: &[u64]) {
    let update = |id: &u64| {
        let step = vec![(ColumnId(1), Expression::add(ColumnId(1), 1))];
        ClientOperation::update(table, vec![Value::Int(*id as i64)], step)
    };
    insist_on(session, ids.iter().map(update).collect()).await;
}
