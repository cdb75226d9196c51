//! The coordinator's side of the epoch protocol, and the snapshots its sessions hold.

use std::collections::BTreeMap;

use actor::{Ctx, Shared, probe};
use model::{ActorKind, Address, ClusterState, Epoch, SessionId, WorkerId};
use wire::{ClientReply, EpochMessage, Message};

use super::Coordinator;
use super::finish::epoch_of;
use super::records::Records;

/// What a coordinator knows of epochs beyond the worker's `EpochView`.
#[derive(Debug, Default)]
pub(super) struct EpochSide {
    /// The epoch prepared for: no epoch is assigned until it is switched to.
    prepared: Option<Epoch>,
    /// Records per assigned epoch that are not over.
    unfinished: BTreeMap<Epoch, u64>,
    /// The newest epoch that a record got.
    committed: Epoch,
    /// The last `Drained` sent to the present driver.
    reported: Epoch,
    /// The newest epoch with a commit that the present driver has been told of.
    told: Epoch,
    /// The driver's epoch actor, once heard of.
    driver: Option<Address>,
    /// Snapshots asked for: request to session, its address and its own request counter.
    wanted: BTreeMap<u64, (SessionId, Address, u64)>,
    wanted_count: u64,
    /// Snapshots given out, one entry per holder.
    held: BTreeMap<Epoch, Vec<SessionId>>,
}

impl EpochSide {
    /// Whether commits must wait.
    pub(super) fn holds_back(&self, ctx: &Ctx<'_>) -> bool {
        self.prepared.is_some() || ctx.view().epochs.current == Epoch(0)
    }

    /// A record got this epoch.
    pub(super) fn begin(&mut self, epoch: Epoch) {
        *self.unfinished.entry(epoch).or_default() += 1;
        self.committed = self.committed.max(epoch);
    }

    /// Something is committed in this epoch. The driver takes its time while nothing is, and must
    /// hear of the first commit after that.
    pub(super) fn end_quiet(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        if let Some(driver) = self.driver
            && epoch.is_after_quiet(self.told)
        {
            probe!(ctx, "epochs: first commit after quiet");
            self.told = epoch;
            let message = EpochMessage::Drained { through: self.reported, committed: epoch };
            ctx.send(driver, Message::Epoch(message));
        }
    }

    /// A record of this epoch is over.
    pub(super) fn end(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        let count = self.unfinished.get_mut(&epoch).expect("the epoch was begun");
        *count -= 1;
        if *count == 0 {
            self.unfinished.remove(&epoch);
        }
        self.report_drained(ctx);
    }

    /// The oldest epoch of a record that is under way.
    pub(super) fn oldest_unfinished(&self) -> Option<Epoch> {
        self.unfinished.keys().next().copied()
    }

    /// Snapshots held for sessions.
    pub(super) fn held_count(&self) -> usize {
        self.held.values().map(Vec::len).sum()
    }

    fn drained(&self, current: Epoch) -> Epoch {
        let oldest = self.unfinished.keys().next().copied().unwrap_or(current);
        Epoch(oldest.min(current).0.saturating_sub(1))
    }

    fn report_drained(&mut self, ctx: &mut Ctx<'_>) {
        let through = self.drained(ctx.view().epochs.current);
        if through > self.reported
            && let Some(driver) = self.driver
        {
            self.reported = through;
            let committed = self.committed.min(through);
            self.told = self.told.max(committed);
            ctx.send(driver, Message::Epoch(EpochMessage::Drained { through, committed }));
        }
    }

    /// Asks the driver for a snapshot.
    pub(super) fn open_snapshot(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        session: SessionId,
        request: u64,
    ) {
        self.wanted_count += 1;
        self.wanted.insert(self.wanted_count, (session, from, request));
        ask_driver(ctx, self.wanted_count);
    }

    /// A session lets go.
    pub(super) fn close_snapshot(&mut self, ctx: &mut Ctx<'_>, session: SessionId, epoch: Epoch) {
        let Some(holders) = self.held.get_mut(&epoch) else { return };
        let Some(at) = holders.iter().position(|holder| *holder == session) else { return };
        holders.swap_remove(at);
        if holders.is_empty() {
            self.held.remove(&epoch);
        }
        self.release(ctx, epoch);
    }

    fn release(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch) {
        if let Some(driver) = self.driver {
            ctx.send(driver, Message::Epoch(EpochMessage::SnapshotReleased { epoch }));
        }
    }

    /// Lets go of all that sessions of a dead client hold or want.
    pub(super) fn client_gone(&mut self, ctx: &mut Ctx<'_>, gone: impl Fn(&SessionId) -> bool) {
        self.wanted.retain(|_, (session, _, _)| !gone(session));
        let mut released = Vec::new();
        for (epoch, holders) in &mut self.held {
            let before = holders.len();
            holders.retain(|holder| !gone(holder));
            released.extend(std::iter::repeat_n(*epoch, before - holders.len()));
        }
        self.held.retain(|_, holders| !holders.is_empty());
        for epoch in released {
            self.release(ctx, epoch);
        }
    }

    /// A new driver must be asked again for what the old one has not given.
    fn driver_changed(&self, ctx: &mut Ctx<'_>) {
        for request in self.wanted.keys() {
            ask_driver(ctx, *request);
        }
    }

    fn opened(&mut self, ctx: &mut Ctx<'_>, request: u64, epoch: Epoch) {
        let Some((session, client, request)) = self.wanted.remove(&request) else {
            // The session is gone, or the snapshot was asked for twice.
            return self.release(ctx, epoch);
        };
        self.held.entry(epoch).or_default().push(session);
        let reply = ClientReply::Snapshot { session, request, result: Ok(epoch) };
        ctx.send(client, Message::Reply(reply));
    }

    /// What holds between messages.
    pub(super) fn check(&self, records: &Records, shared: &Shared) {
        let mut counts: BTreeMap<Epoch, u64> = BTreeMap::new();
        for record in records.iter().filter(|record| record.taken_from.is_none()) {
            if let Some(epoch) = epoch_of(record.phase) {
                assert!(epoch <= shared.epochs.current, "{} is ahead", record.id);
                *counts.entry(epoch).or_default() += 1;
            }
        }
        assert_eq!(counts, self.unfinished, "epochs of records under way");
        assert!(
            shared.epochs.completed < shared.epochs.current || shared.epochs.current == Epoch(0),
            "the current epoch cannot be complete"
        );
        if let Some(oldest) = self.unfinished.keys().next() {
            assert!(*oldest > shared.epochs.completed, "{oldest} is complete yet unfinished");
        }
    }
}

impl Coordinator {
    /// Asks a new driver for what the old one has not given.
    pub(super) fn follow_driver(&self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        if driver_life(ctx.cluster()) != driver_life(before) {
            self.epochs.driver_changed(ctx);
            self.durable.driver_changed(ctx);
        }
    }

    /// Handles a message of the driver.
    #[expect(clippy::too_many_lines, reason = "an arm for each message")]
    pub(super) fn handle_epoch(&mut self, ctx: &mut Ctx<'_>, from: Address, message: EpochMessage) {
        if from.node != ctx.node()
            && let Some(rule) = self.broken_epoch_rule(ctx, &message)
        {
            return ctx.refuse(from, rule);
        }
        match message {
            EpochMessage::Prepare { epoch, retained } => {
                self.epochs.driver = Some(from);
                let view = &mut ctx.shared().epochs;
                view.retained = retained;
                view.announced = view.announced.max(epoch);
                if epoch > view.current {
                    self.epochs.prepared = Some(epoch);
                }
                ctx.send(from, Message::Epoch(EpochMessage::Prepared { epoch }));
            }
            EpochMessage::Resume { epoch } => {
                if self.epochs.prepared == Some(epoch) {
                    probe!(ctx, "epochs: commits go on as a switch was called off");
                    // Nobody commits in an epoch that does not come.
                    let view = &mut ctx.shared().epochs;
                    view.announced = view.current;
                    self.epochs.prepared = None;
                    self.decide_waiting(ctx);
                }
            }
            EpochMessage::Switch { epoch } => {
                self.epochs.driver = Some(from);
                let view = &mut ctx.shared().epochs;
                if epoch > view.current {
                    view.current = epoch;
                    view.announced = view.announced.max(epoch);
                    self.epochs.prepared = None;
                    self.decide_waiting(ctx);
                    self.epochs.report_drained(ctx);
                }
            }
            EpochMessage::Completed { epoch, retained, ended } => {
                let now = ctx.now();
                let view = &mut ctx.shared().epochs;
                for (epoch, at) in ended {
                    view.note_end(epoch, at);
                }
                if epoch > view.completed {
                    (view.completed, view.completed_at) = (epoch, now);
                }
                view.retained = retained;
            }
            EpochMessage::StateQuery => {
                if self.epochs.driver.is_some_and(|driver| driver != from) {
                    probe!(ctx, "epochs: a new driver asks");
                }
                self.epochs.driver = Some(from);
                let view = &ctx.view().epochs;
                let drained = self.epochs.drained(view.current);
                self.epochs.reported = drained;
                self.epochs.told = self.epochs.committed;
                let held = &self.epochs.held;
                let state = EpochMessage::State {
                    current: view.current,
                    prepared: self.epochs.prepared,
                    drained,
                    committed: self.epochs.committed,
                    completed: view.completed,
                    ended: view.ended.back().map_or(0, |(_, at)| *at),
                    snapshots: held
                        .iter()
                        .flat_map(|(epoch, holders)| std::iter::repeat_n(*epoch, holders.len()))
                        .collect(),
                };
                ctx.send(from, Message::Epoch(state));
            }
            EpochMessage::SnapshotOpened { request, epoch } => {
                self.epochs.opened(ctx, request, epoch);
            }
            EpochMessage::Durable { epoch } => self.durable.told(ctx, epoch),
            EpochMessage::Noted { epoch } => self.durable.noted(ctx, epoch),
            EpochMessage::Prepared { .. }
            | EpochMessage::Saved { .. }
            | EpochMessage::SaveRequest { .. }
            | EpochMessage::Drained { .. }
            | EpochMessage::State { .. }
            | EpochMessage::SnapshotRequest { .. }
            | EpochMessage::SnapshotReleased { .. } => {
                panic!("{} is for the driver", message.name())
            }
        }
    }
}

fn driver_life(cluster: &ClusterState) -> Option<(model::NodeId, model::Incarnation)> {
    let node = cluster.driver()?;
    Some((node, cluster.members.get(&node)?.incarnation))
}

fn ask_driver(ctx: &mut Ctx<'_>, request: u64) {
    tell_driver(ctx, EpochMessage::SnapshotRequest { request });
}

/// Sends to the driver of epochs, if there is one.
pub(super) fn tell_driver(ctx: &mut Ctx<'_>, message: EpochMessage) {
    if let Some(node) = ctx.cluster().driver() {
        let driver = Address { node, worker: WorkerId(0), actor: ActorKind::Epochs };
        ctx.send(driver, Message::Epoch(message));
    }
}
