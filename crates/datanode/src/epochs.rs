//! Drives the epochs of the cluster: the two-step switch, completion, snapshots, durability.
//!
//! Every data node has this actor on worker 0; only the driver's acts (the oldest active data
//! node). Protocol walk-through: `docs/internals/epochs.md`.
//!
//! # Owns
//! The next epoch, who is prepared and drained, which snapshots are open, what is on disk (`save`).
//! # Speaks
//! in and out: `EpochMessage`, with every coordinator of the cluster
//! out: `ParticipantMessage::Save` and `Durable`; in: `EpochMessage::Saved`
//! # Invariants
//! 1. At most one switch is under way; `Switch(e)` is sent when every coordinator has prepared `e`.
//!    A switch that takes too long is called off, and the number of its epoch never used.
//! 2. `Completed(e)` is sent when every coordinator has drained `e` and no takeover is pending.
//! 3. A snapshot is given out only when its epoch is complete, and is retained from before the
//!    first commit of the next epoch until its last holder lets go.
//! # Failure
//! Own death: the next driver asks all coordinators and goes on from what they say. A worker that
//! does not answer is named to the control plane, which removes its node (`silence`).
//! # Not here
//! Old row images and what is written to disk (`participant`).

mod save;
mod silence;

use std::collections::{BTreeMap, BTreeSet};

use actor::{Actor, Ctx, Mutation, Shared, Timer, fault_point, probe};
use model::{Address, ClusterState, Epoch};
use stdx::Instant;
use wire::{EpochMessage, Message};

use save::Saves;
use silence::Silence;

/// The epoch driver.
#[doc(alias = "DBDIH")]
#[derive(Debug, Default)]
pub struct Epochs {
    role: Role,
    /// The epoch coordinators assign.
    current: Epoch,
    /// The newest epoch announced as complete.
    completed: Epoch,
    /// When epochs ended that are not announced as complete.
    ended: BTreeMap<Epoch, u64>,
    /// When the last of them ended, or of those that were announced, by whichever driver.
    ended_last: u64,
    /// Coordinators that have an epoch, with what they have drained.
    drained: BTreeMap<Address, Epoch>,
    /// Open snapshots: holders per coordinator.
    snapshots: BTreeMap<Epoch, BTreeMap<Address, u32>>,
    /// Snapshots asked for, not yet part of a switch.
    wanted: Vec<(Address, u64)>,
    /// Asked for; given out when this epoch is complete.
    promised: BTreeMap<Epoch, Vec<(Address, u64)>>,
    /// What is on disk.
    saves: Saves,
    /// When the last switch began.
    switched_at: Instant,
    /// The next one comes later than usual, as nothing is committed.
    slow: bool,
    /// Who does not answer, and for how long commits wait for such.
    silence: Silence,
}

#[derive(Debug, Default)]
enum Role {
    /// Another node drives.
    #[default]
    Passive,
    /// New driver: asks how far everyone is.
    Gathering { waiting: BTreeSet<Address>, prepared: Option<Epoch> },
    /// Between switches.
    Idle,
    /// First step of a switch: waits for `Prepared`.
    Preparing { epoch: Epoch, waiting: BTreeSet<Address>, everyone: Vec<Address> },
    /// The switch was called off. The next one begins when those have answered who were late.
    CalledOff { epoch: Epoch, waiting: BTreeSet<Address> },
}

impl Epochs {
    /// An actor that drives nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether this actor drives the cluster's epochs now.
    pub fn drives(&self) -> bool {
        !matches!(self.role, Role::Passive)
    }

    fn gather(&mut self, ctx: &mut Ctx<'_>) {
        *self = Self::default();
        // No epoch of an earlier generation comes again.
        self.current = ctx.cluster().epoch_floor();
        self.completed = Epoch(self.current.0.saturating_sub(1));
        let everyone: BTreeSet<Address> = ctx.cluster().coordinators().into_iter().collect();
        for coordinator in &everyone {
            ctx.send(*coordinator, Message::Epoch(EpochMessage::StateQuery));
        }
        self.role = Role::Gathering { waiting: everyone, prepared: None };
        self.silence.begin(ctx.now());
        ctx.set_timer(Timer::EpochTick, ctx.config().epoch_interval);
    }

    fn state(&mut self, ctx: &mut Ctx<'_>, from: Address, message: EpochMessage) {
        let EpochMessage::State {
            current,
            prepared,
            drained,
            committed,
            completed,
            snapshots,
            ended,
        } = message
        else {
            panic!("state is taken from a state message");
        };
        if from.node != ctx.node() && current > Epoch(0) && completed >= current {
            return ctx.refuse(from, "an epoch is complete that is not over");
        }
        let Role::Gathering { waiting, prepared: highest } = &mut self.role else { return };
        if !waiting.remove(&from) {
            return;
        }
        *highest = (*highest).max(prepared);
        self.current = self.current.max(current);
        self.completed = self.completed.max(completed);
        self.ended_last = self.ended_last.max(ended);
        self.saves.note_committed(committed);
        if current > Epoch(0) || prepared.is_some() {
            self.drained.insert(from, drained);
        }
        for epoch in snapshots {
            *self.snapshots.entry(epoch).or_default().entry(from).or_default() += 1;
        }
        self.gathered(ctx);
    }

    /// When all have answered: brings laggards to the newest epoch and begins the next.
    fn gathered(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Gathering { waiting, prepared } = &self.role else { return };
        if !waiting.is_empty() {
            return;
        }
        if let Some(prepared) = prepared
            && *prepared > self.current
        {
            probe!(ctx, "epochs: driver lost between prepare and switch");
        }
        // Who assigns none yet may have been told of any.
        self.completed = self.completed.min(self.current);
        // Those before the present one have ended under a driver that has not said when.
        let before = Epoch(self.current.0.saturating_sub(1));
        if before > self.completed {
            self.note_end(ctx, before);
        }
        // If one has switched, all were prepared: the others may switch too.
        let active: Vec<Address> = self.drained.keys().copied().collect();
        if self.current > Epoch(0) {
            for coordinator in active {
                let epoch = self.current;
                ctx.send(coordinator, Message::Epoch(EpochMessage::Switch { epoch }));
            }
        }
        self.role = Role::Idle;
        self.begin_switch(ctx);
    }

    /// Whether no switch is under way.
    fn is_idle(&self) -> bool {
        matches!(self.role, Role::Idle)
    }

    /// First step: everyone stops assigning epochs.
    fn begin_switch(&mut self, ctx: &mut Ctx<'_>) {
        self.slow = self.may_be_slow(ctx);
        let config = ctx.config();
        // While it waits for answers it looks at the time as often as ever.
        let interval = config.epoch_interval;
        ctx.set_timer(Timer::EpochTick, interval);
        self.switched_at = ctx.now();
        self.silence.begin(ctx.now());
        let epoch = self.silence.next_epoch(self.current);
        if !self.wanted.is_empty() && self.current > Epoch(0) {
            let asked = std::mem::take(&mut self.wanted);
            self.promised.entry(self.current).or_default().extend(asked);
        }
        let retained = self.retained();
        let everyone = ctx.cluster().coordinators();
        let waiting: BTreeSet<Address> = everyone.iter().copied().collect();
        if ctx.mutated(Mutation::OneStepEpochSwitch) {
            self.role = Role::Preparing { epoch, waiting: BTreeSet::new(), everyone };
            return self.prepared_all(ctx);
        }
        for coordinator in &waiting {
            let retained = retained.clone();
            let message = EpochMessage::Prepare { epoch, retained };
            ctx.send(*coordinator, Message::Epoch(message));
            fault_point!(ctx, "epochs: after a prepare is sent");
        }
        self.role = Role::Preparing { epoch, waiting, everyone };
    }

    /// Whether nobody is worse off if the next epoch takes longer.
    fn may_be_slow(&self, ctx: &Ctx<'_>) -> bool {
        // A save that is not due yet begins with a completed epoch, and must not wait long for one.
        let unsaved = ctx.has_disk() && self.saves.is_dirty();
        self.saves.is_quiet(self.current) && !unsaved
    }

    /// Something has been committed: the next switch comes at the usual time.
    fn hasten(&mut self, ctx: &mut Ctx<'_>) {
        if self.slow && !self.may_be_slow(ctx) {
            self.slow = false;
            let due = self.switched_at + ctx.config().epoch_interval;
            ctx.set_timer(Timer::EpochTick, due.since(ctx.now()));
        }
    }

    fn prepared(&mut self, ctx: &mut Ctx<'_>, from: Address, prepared: Epoch) {
        match &mut self.role {
            Role::Preparing { epoch, waiting, .. } if *epoch == prepared => {
                waiting.remove(&from);
                self.prepared_all(ctx);
            }
            Role::CalledOff { epoch, waiting } if *epoch == prepared => {
                waiting.remove(&from);
                self.late_answered(ctx);
            }
            _ => {}
        }
    }

    /// Second step, when all have prepared: everyone assigns the new epoch.
    fn prepared_all(&mut self, ctx: &mut Ctx<'_>) {
        let Role::Preparing { epoch, waiting, everyone } = &self.role else { return };
        if !waiting.is_empty() {
            return;
        }
        let (epoch, everyone) = (*epoch, everyone.clone());
        self.silence.switched();
        if self.slow {
            let due = self.switched_at + ctx.config().epoch_interval_idle;
            ctx.set_timer(Timer::EpochTick, due.since(ctx.now()));
        }
        if self.current > Epoch(0) {
            self.note_end(ctx, self.current);
        }
        self.current = epoch;
        self.role = Role::Idle;
        for coordinator in everyone {
            if !is_member(ctx.cluster(), coordinator) {
                continue;
            }
            self.drained.entry(coordinator).or_default();
            ctx.send(coordinator, Message::Epoch(EpochMessage::Switch { epoch }));
            fault_point!(ctx, "epochs: after a switch is sent");
        }
        self.try_complete(ctx);
        if !self.wanted.is_empty() || self.saves.wants_switch(self.current) {
            self.begin_switch(ctx);
        }
    }

    /// An epoch has ended: nothing commits in it any more. Times ascend whatever clocks do.
    fn note_end(&mut self, ctx: &Ctx<'_>, epoch: Epoch) {
        self.ended_last = ctx.time_of_day().max(self.ended_last + 1);
        self.ended.insert(epoch, self.ended_last);
    }

    /// Announces the newest complete epoch, and gives out the snapshots that waited for it.
    fn try_complete(&mut self, ctx: &mut Ctx<'_>) {
        if matches!(self.role, Role::Passive | Role::Gathering { .. }) {
            return;
        }
        if !ctx.cluster().takeovers.is_empty() {
            probe!(ctx, "epochs: completion waits for a takeover");
            return;
        }
        let drained = self.drained.values().min().copied().unwrap_or_default();
        let complete = drained.min(Epoch(self.current.0.saturating_sub(1)));
        if complete <= self.completed {
            return;
        }
        self.completed = complete;
        let later = self.promised.split_off(&complete.next());
        for (epoch, requests) in std::mem::replace(&mut self.promised, later) {
            for (coordinator, request) in requests {
                *self.snapshots.entry(epoch).or_default().entry(coordinator).or_default() += 1;
                let message = EpochMessage::SnapshotOpened { request, epoch };
                ctx.send(coordinator, Message::Epoch(message));
            }
        }
        let retained = self.retained();
        let later = self.ended.split_off(&complete.next());
        let ended: Vec<_> = std::mem::replace(&mut self.ended, later).into_iter().collect();
        for coordinator in ctx.cluster().coordinators() {
            let (retained, ended) = (retained.clone(), ended.clone());
            let message = EpochMessage::Completed { epoch: complete, retained, ended };
            ctx.send(coordinator, Message::Epoch(message));
            fault_point!(ctx, "epochs: after a completion is sent");
        }
        self.try_save(ctx);
    }

    /// Epochs whose versions must be kept.
    fn retained(&self) -> Vec<Epoch> {
        let epochs: BTreeSet<Epoch> =
            self.snapshots.keys().chain(self.promised.keys()).copied().collect();
        epochs.into_iter().collect()
    }

    fn snapshot_wanted(&mut self, ctx: &mut Ctx<'_>, from: Address, request: u64) {
        self.wanted.push((from, request));
        if self.is_idle() {
            self.begin_switch(ctx);
        }
    }

    fn snapshot_released(&mut self, from: Address, epoch: Epoch) {
        let Some(holders) = self.snapshots.get_mut(&epoch) else { return };
        let Some(count) = holders.get_mut(&from) else { return };
        *count -= 1;
        if *count == 0 {
            holders.remove(&from);
        }
        if holders.is_empty() {
            self.snapshots.remove(&epoch);
        }
    }

    /// Forgets coordinators whose life is over.
    fn drop_dead(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let after = ctx.cluster().clone();
        let dead: BTreeSet<_> = before
            .members
            .iter()
            .filter(|(node, member)| after.member(**node, member.incarnation).is_none())
            .map(|(node, _)| *node)
            .collect();
        if dead.is_empty() {
            return;
        }
        let alive = |address: &Address| !dead.contains(&address.node);
        self.drained.retain(|address, _| alive(address));
        self.saves.retain(alive);
        self.wanted.retain(|(address, _)| alive(address));
        for asked in self.promised.values_mut() {
            asked.retain(|(address, _)| alive(address));
        }
        for holders in self.snapshots.values_mut() {
            holders.retain(|address, _| alive(address));
        }
        self.snapshots.retain(|_, holders| !holders.is_empty());
        match &mut self.role {
            Role::Gathering { waiting, .. } => waiting.retain(alive),
            Role::Preparing { waiting, everyone, .. } => {
                probe!(ctx, "epochs: coordinator lost during a switch");
                waiting.retain(alive);
                everyone.retain(alive);
            }
            Role::CalledOff { waiting, .. } => waiting.retain(alive),
            Role::Passive | Role::Idle => {}
        }
    }
}

impl Actor for Epochs {
    fn handle(&mut self, ctx: &mut Ctx<'_>, from: Address, message: Message) {
        let message = match message {
            Message::Epoch(message) => message,
            Message::LinkDown { .. } => return,
            other => panic!("the epoch driver was sent {}", other.name()),
        };
        if !self.drives() {
            // For an earlier time as driver, or a time to come; the sender will ask again.
            return;
        }
        match message {
            EpochMessage::Prepared { epoch } => self.prepared(ctx, from, epoch),
            EpochMessage::Drained { through, committed } => {
                self.saves.note_committed(committed);
                self.hasten(ctx);
                if let Some(drained) = self.drained.get_mut(&from) {
                    *drained = (*drained).max(through);
                    self.try_complete(ctx);
                }
            }
            EpochMessage::State { .. } => self.state(ctx, from, message),
            EpochMessage::SnapshotRequest { request } => self.snapshot_wanted(ctx, from, request),
            EpochMessage::SnapshotReleased { epoch } => self.snapshot_released(from, epoch),
            EpochMessage::Saved { epoch } => self.saved(ctx, from, epoch),
            EpochMessage::SaveRequest { epoch } => self.save_wanted(ctx, epoch),
            EpochMessage::Prepare { .. }
            | EpochMessage::Durable { .. }
            | EpochMessage::Resume { .. }
            | EpochMessage::Noted { .. }
            | EpochMessage::Switch { .. }
            | EpochMessage::Completed { .. }
            | EpochMessage::StateQuery
            | EpochMessage::SnapshotOpened { .. } => {
                panic!("{} is for coordinators", message.name())
            }
        }
    }

    fn timeout(&mut self, ctx: &mut Ctx<'_>, timer: Timer) {
        assert_eq!(timer, Timer::EpochTick, "only timer of the epoch driver");
        if self.is_idle() {
            self.begin_switch(ctx);
        } else {
            // A switch takes longer than the interval: the next one is not forgotten for that.
            ctx.set_timer(Timer::EpochTick, ctx.config().epoch_interval);
            self.watch_silence(ctx);
        }
    }

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, before: &ClusterState) {
        let mine = ctx.cluster().started && ctx.cluster().driver() == Some(ctx.node());
        if !mine {
            if self.drives() {
                *self = Self::default();
                ctx.stop_timer(Timer::EpochTick);
            }
            return;
        }
        if !self.drives() {
            return self.gather(ctx);
        }
        self.drop_dead(ctx, before);
        self.gathered(ctx);
        self.prepared_all(ctx);
        self.late_answered(ctx);
        self.try_complete(ctx);
        self.saved_all(ctx);
    }

    fn check_invariants(&self, _shared: &Shared) {
        assert!(self.completed <= self.current, "a later epoch is complete");
        for holders in self.snapshots.values() {
            assert!(!holders.is_empty(), "a snapshot without holder");
        }
    }
}

fn is_member(cluster: &ClusterState, coordinator: Address) -> bool {
    cluster.members.contains_key(&coordinator.node)
}

#[cfg(test)]
mod tests;
