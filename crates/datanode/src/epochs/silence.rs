//! Workers that do not answer the driver: for how long commits wait for them, and who names them.
//!
//! Between the two steps of a switch every coordinator holds its commits back, so one that does not
//! answer holds up all writers of the cluster. A switch that takes too long is therefore called
//! off: the others go on in the present epoch, and the next switch begins when the late ones have
//! answered. No epoch becomes complete meanwhile.
//!
//! # Guarantees
//! 1. Commits are held back for a bounded time, doubled after each switch that was called off, so
//!    that a cluster in which all answer late gets its next epoch too.
//! 2. Who has not answered for `Config::worker_silence` is named to the control plane, again and
//!    again. The driver's own pauses do not count as silence of others.
//! # Not here
//! What becomes of a node whose worker is named (`control`). A host that sees one of its threads
//! stand still ends the process earlier.

use std::collections::BTreeSet;

use actor::{Ctx, Mutation, fault_point, probe};
use model::{ActorKind, Address, Epoch, WorkerId};
use stdx::{Duration, Instant};
use wire::{ControlMessage, EpochMessage, EpochStep, Message, UnresponsiveWorker};

use super::{Epochs, Role};

/// What the driver knows of those who do not answer.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// When it was looked at last.
    looked_at: Instant,
    /// For how long the present step waits, without pauses of this worker.
    waited: Duration,
    /// After which time it is told next.
    told: Duration,
    /// The newest epoch of a switch that was called off.
    called_off: Epoch,
    /// Switches called off in a row.
    in_a_row: u32,
}

impl Silence {
    /// All are asked anew.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.looked_at, self.waited, self.told) = (now, Duration::ZERO, Duration::ZERO);
    }

    /// A switch has come to its end.
    pub(super) fn switched(&mut self) {
        self.in_a_row = 0;
    }

    /// The epoch to switch to. Who is late with an answer for one that was called off has not
    /// prepared for the one that is asked for later.
    pub(super) fn next_epoch(&self, current: Epoch) -> Epoch {
        current.max(self.called_off).next()
    }

    /// For how long commits may be held back by the switch under way.
    fn patience(&self, interval: Duration) -> Duration {
        let shortest = interval.times(2).max(PATIENCE_MIN);
        shortest.times(1 << self.in_a_row.min(DOUBLED_MAX))
    }

    /// Counts the time since the last look, or as much of it as this worker was not held up.
    fn look(&mut self, now: Instant, interval: Duration) {
        self.waited = self.waited + now.since(self.looked_at).min(interval.times(2));
        self.looked_at = now;
    }

    /// Whether the silent are to be named now.
    fn is_long(&mut self, limit: Duration, again: Duration) -> bool {
        let due = self.waited >= limit && (self.told == Duration::ZERO || self.waited >= self.told);
        if due {
            self.told = self.waited + again;
        }
        due
    }
}

impl Epochs {
    /// Looks for how long the present step takes, at each tick.
    pub(super) fn watch_silence(&mut self, ctx: &mut Ctx<'_>) {
        let config = ctx.config().clone();
        self.silence.look(ctx.now(), config.epoch_interval);
        if let Role::Preparing { epoch, waiting, .. } = &self.role
            && self.silence.waited >= self.silence.patience(config.epoch_interval)
        {
            let (epoch, waiting) = (*epoch, waiting.clone());
            self.call_off(ctx, epoch, waiting);
        }
        let again = config.worker_silence.divided_by(4);
        if self.silence.is_long(config.worker_silence, again) {
            self.name_silent(ctx);
        }
    }

    /// Lets commits go on in the present epoch, although some have not prepared for the next one.
    fn call_off(&mut self, ctx: &mut Ctx<'_>, epoch: Epoch, waiting: BTreeSet<Address>) {
        probe!(ctx, "epochs: switch called off");
        self.silence.called_off = epoch;
        self.silence.in_a_row += 1;
        for coordinator in ctx.cluster().coordinators() {
            ctx.send(coordinator, Message::Epoch(EpochMessage::Resume { epoch }));
            fault_point!(ctx, "epochs: after a call-off is sent");
        }
        self.role = Role::CalledOff { epoch, waiting };
    }

    /// Begins the next switch when all have answered who were late for the one called off.
    pub(super) fn late_answered(&mut self, ctx: &mut Ctx<'_>) {
        let Role::CalledOff { waiting, .. } = &self.role else { return };
        if waiting.is_empty() {
            self.role = Role::Idle;
            self.begin_switch(ctx);
        }
    }

    /// Tells the control plane who does not answer.
    fn name_silent(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.mutated(Mutation::DriverNamesNobody) {
            return;
        }
        let (waiting, step) = match &self.role {
            Role::Gathering { waiting, .. } => (waiting, EpochStep::State),
            Role::Preparing { waiting, .. } | Role::CalledOff { waiting, .. } => {
                (waiting, EpochStep::Prepare)
            }
            Role::Passive | Role::Idle => return,
        };
        let waited = self.silence.waited;
        let control = Address { worker: WorkerId(0), actor: ActorKind::Control, ..ctx.me() };
        for coordinator in waiting {
            let Some(member) = ctx.cluster().members.get(&coordinator.node) else { continue };
            let (node, incarnation) = (coordinator.node, member.incarnation);
            let worker = coordinator.worker;
            let silent = UnresponsiveWorker { node, incarnation, worker, step, waited };
            probe!(ctx, "epochs: silent worker named");
            let message = Box::new(ControlMessage::Unresponsive(silent));
            ctx.send(control, Message::Control(message));
        }
    }
}

/// For how long commits are held back at least, before a switch is called off.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
/// How often that is doubled at most.
const DOUBLED_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_pauses_are_not_silence_of_others() {
        let interval = Duration::from_millis(20);
        let (mut silence, mut now) = (Silence::default(), Instant::ZERO + Duration::from_secs(9));
        silence.begin(now);
        for _ in 0..10 {
            now = now + interval;
            silence.look(now, interval);
        }
        assert_eq!(silence.waited, Duration::from_millis(200));
        now = now + Duration::from_secs(60);
        silence.look(now, interval);
        assert_eq!(silence.waited, Duration::from_millis(240));
    }

    #[test]
    fn the_silent_are_named_again_and_again() {
        let (mut silence, step) = (Silence::default(), Duration::from_millis(100));
        let mut named = Vec::new();
        for tick in 1..=10 {
            silence.waited = step.times(tick);
            if silence.is_long(step.times(4), step.times(2)) {
                named.push(tick);
            }
        }
        assert_eq!(named, [4, 6, 8, 10]);
    }

    #[test]
    fn commits_wait_longer_after_each_switch_that_was_called_off() {
        let mut silence = Silence::default();
        let patience = |silence: &Silence| silence.patience(Duration::from_millis(20)).as_millis();
        assert_eq!(patience(&silence), 40);
        silence.in_a_row = 3;
        assert_eq!(patience(&silence), 320);
        silence.in_a_row = 99;
        assert_eq!(patience(&silence), 40 << DOUBLED_MAX);
        silence.switched();
        assert_eq!(patience(&silence), 40);
    }
}
