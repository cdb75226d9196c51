//! Tasks of an SQL worker that are no client's.
//!
//! # Owns
//! The places of such tasks among the connections: no host has a connection of such a number. Of
//! these tasks the one that moves tables is in the list of connections; a KILL of it ends what it
//! does now. No client can ask for the end of another one.

use std::cell::RefCell;
use std::rc::Rc;

use actor::{ConnectionId, Ctx};
use model::{ClusterState, ControlIndex, WorkerId};

use super::{Connection, SqlNode};
use crate::account::first;
use crate::backup::archive::drive;
use crate::changefeed::{self, writer};
use crate::ddl::moves::{self, leftovers};
use crate::kernel::{Exchange, Interrupt, Kernel};
use crate::link::LinkState;
use crate::replica;
use crate::session::Shared;
use crate::stacks::Task;
use crate::statistics::task;

/// The place of the task that no client has asked for.
const NO_CONNECTION: ConnectionId = ConnectionId(u64::MAX);
/// The place of the task that finds out how values are distributed.
const ANALYST: ConnectionId = ConnectionId(NO_CONNECTION.0 - 1);
/// The place of the task that looks for archives.
const ARCHIVIST: ConnectionId = ConnectionId(NO_CONNECTION.0 - 2);
/// The place of the task that moves tables to other node groups.
const MOVER: ConnectionId = ConnectionId(NO_CONNECTION.0 - 3);
/// The place of the task that looks for replication channels.
const REPLICATOR: ConnectionId = ConnectionId(NO_CONNECTION.0 - 4);
/// The place of the task that looks for change feeds.
const FEEDER: ConnectionId = ConnectionId(NO_CONNECTION.0 - 5);
/// The place of the task that looks for what is in the way of dropping a node group.
const SWEEPER: ConnectionId = ConnectionId(NO_CONNECTION.0 - 6);
/// The place of the first task that no client waits for.
const DETACHED: u64 = SWEEPER.0 - 1;

impl SqlNode {
    /// Starts what the process does without a client, once and on one worker.
    pub(super) fn begin(&mut self, ctx: &mut Ctx<'_>) {
        if std::mem::replace(&mut self.has_begun, true) || ctx.me().worker != WorkerId(0) {
            return;
        }
        let Some(own) = self.options.admission.own_password.clone() else { return };
        let clock_base = self.options.clock_base;
        self.start(ctx, NO_CONNECTION, |kernel, shared| {
            Box::pin(first::secure(kernel, shared, own, clock_base))
        });
    }

    /// Starts the tasks that are to run and do not. This is on the way of every answer.
    pub(super) fn start_own(&mut self, ctx: &mut Ctx<'_>) {
        if self.shutting_down {
            return;
        }
        self.analyze(ctx);
        if ctx.me().worker != WorkerId(0) {
            return;
        }
        self.move_tables(ctx);
        let index = ctx.cluster().index;
        if self.own_started_at == index {
            return;
        }
        self.own_started_at = index;
        self.archive(ctx);
        self.replicate(ctx);
        self.feed(ctx);
        self.sweep(ctx);
    }

    /// One of this node's own tasks may have ended: it is started again if it is still to run.
    pub(super) fn own_ended(&mut self, id: ConnectionId) {
        if id >= SWEEPER {
            self.own_started_at = ControlIndex::default();
        }
    }

    /// Starts the task that samples tables, if there are any to be sampled and it does not run.
    fn analyze(&mut self, ctx: &mut Ctx<'_>) {
        let wanted = self.runner.shared.statistics.wants_values();
        if !wanted || self.connections.contains_key(&ANALYST) {
            return;
        }
        self.start_seeded(ctx, ANALYST, |kernel, shared, clock_base| {
            Box::pin(task::run(kernel, shared, clock_base))
        });
    }

    /// Starts the task that moves tables, if there are any to be moved and it does not run.
    fn move_tables(&mut self, ctx: &mut Ctx<'_>) {
        if !ctx.cluster().reorganizing || self.connections.contains_key(&MOVER) {
            return;
        }
        let number = self.next_number(ctx);
        self.by_number.insert(number, MOVER);
        self.start_seeded(ctx, MOVER, |kernel, shared, clock_base| {
            Box::pin(moves::run(kernel, shared, clock_base, number))
        });
        // What has ended at once is not there any more.
        match self.connections.get_mut(&MOVER) {
            Some(mover) => mover.number = number,
            None => drop(self.by_number.remove(&number)),
        }
    }

    /// Ends the move of a table that nobody wants any more, also in the middle of a copy. When all
    /// are moved, whoever moved the last one clears away in peace.
    pub(super) fn stop_moving(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let stops = before.reorganizing && !ctx.cluster().reorganizing;
        if !stops || ctx.cluster().moves().left == 0 {
            return;
        }
        if let Some(mover) = self.connections.get_mut(&MOVER) {
            mover.exchange.borrow_mut().interrupt(Interrupt::Killed);
            self.run(ctx, MOVER);
        }
    }

    /// Starts the task that looks for what is in the way of dropping a node group, if there is
    /// something and it does not run.
    fn sweep(&mut self, ctx: &mut Ctx<'_>) {
        if self.connections.contains_key(&SWEEPER) || !leftovers::are_in_the_way(ctx.cluster()) {
            return;
        }
        self.start_seeded(ctx, SWEEPER, |kernel, shared, clock_base| {
            Box::pin(leftovers::sweep(kernel, shared, clock_base))
        });
    }

    /// Whether a task is to be started: what orders its work stands in a table.
    fn is_to_start(&self, ctx: &Ctx<'_>, place: ConnectionId, table: &str) -> bool {
        !self.connections.contains_key(&place) && ctx.cluster().table_named(table).is_some()
    }

    /// Starts the task that looks for archives, if there may be any.
    fn archive(&mut self, ctx: &mut Ctx<'_>) {
        if self.is_to_start(ctx, ARCHIVIST, crate::backup::archive::TABLE)
            && self.runner.shared.directory.backups().host().is_ok()
        {
            self.start_seeded(ctx, ARCHIVIST, |kernel, shared, clock_base| {
                Box::pin(drive::watch(kernel, shared, clock_base))
            });
        }
    }

    /// Starts the task that looks for replication channels, if there may be any.
    fn replicate(&mut self, ctx: &mut Ctx<'_>) {
        if self.is_to_start(ctx, REPLICATOR, replica::TABLE)
            && self.runner.shared.directory.sources().host().is_some()
        {
            self.start_seeded(ctx, REPLICATOR, |kernel, shared, clock_base| {
                Box::pin(replica::watch(kernel, shared, clock_base))
            });
        }
    }

    /// Starts the task that looks for change feeds that are written to files, if there may be any.
    fn feed(&mut self, ctx: &mut Ctx<'_>) {
        if self.is_to_start(ctx, FEEDER, changefeed::TABLE)
            && self.runner.shared.admission.server_files().is_ok()
        {
            self.start_seeded(ctx, FEEDER, |kernel, shared, clock_base| {
                Box::pin(writer::watch(kernel, shared, clock_base))
            });
        }
    }

    /// Starts the tasks that no client waits for.
    pub(super) fn start_detached(&mut self, ctx: &mut Ctx<'_>) {
        let detached = std::mem::take(&mut *self.runner.shared.detached.borrow_mut());
        for work in detached {
            let id = ConnectionId(DETACHED - self.detached);
            self.detached += 1;
            self.start(ctx, id, work.0);
        }
    }

    /// Starts a task that draws random numbers and tells the time: it is given the time of day at
    /// which its clock began.
    fn start_seeded(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ConnectionId,
        task: impl FnOnce(Kernel, Rc<Shared>, i64) -> Task,
    ) {
        let (seed, clock_base) = (ctx.prng().next_u64(), self.options.clock_base);
        self.start(ctx, id, |kernel, shared| {
            kernel.seed(seed);
            task(kernel, shared, clock_base)
        });
    }

    /// Starts a task at a place among the connections.
    fn start(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: ConnectionId,
        task: impl FnOnce(Kernel, Rc<Shared>) -> Task,
    ) {
        let exchange = Rc::new(RefCell::new(Exchange::default()));
        exchange.borrow_mut().mutation = ctx.view().mutation;
        let kernel = Kernel::new(exchange.clone());
        kernel.share_orphans(&self.runner.shared.orphans);
        let task = task(kernel, self.runner.shared.clone());
        let link = Rc::new(RefCell::new(LinkState::default()));
        self.connections.insert(id, Connection::new(0, task, link, exchange));
        self.run(ctx, id);
    }
}
