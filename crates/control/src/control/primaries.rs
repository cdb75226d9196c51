//! When the primaries of a node group move back.
//!
//! # Guarantees
//! 1. They move when nothing is open in the group, at any replica, and nothing can begin there: an
//!    entry of the log holds the group, and every coordinator has said, in a state with that entry,
//!    that all of its transactions there have ended. This is needed for safety, unlike with a node
//!    that joins or leaves: an old primary that lives has locks that the new one does not know.
//! 2. A group is held for little more than `Config::quiesce_time`. When a transaction takes longer
//!    it is let go. A second attempt follows soon: SQL nodes that have seen the first one let go of
//!    what they have open by themselves. Another pair of attempts follows later, each time after
//!    twice as long.
//! 3. A group that an earlier leader has held is let go.
//! # Not here
//! What moves (`state_machine::primaries`), how coordinators wait (`datanode::coordinator`).

use actor::{Ctx, fault_point, probe};
use model::Command;
use model::cluster::HeldGroup;
use stdx::Instant;

use super::Control;
use super::quiesce::Held;

/// Pairs of attempts after which the time between two of them grows no more: some 40 minutes, as
/// configured.
const DOUBLINGS: u32 = 10;

/// What the leader remembers of it.
#[derive(Debug, Default)]
pub(super) struct Primaries {
    /// Since when a group could have its primaries elsewhere, or since the last attempt.
    since: Option<Instant>,
    /// This leader has had the group held.
    asked: bool,
    /// Attempts that have failed, one after the other.
    failed: u32,
}

impl Control {
    /// Leader: moves primaries back to the nodes they belong to, a group at a time.
    pub(super) fn spread_primaries(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(held) = self.state.held {
            return self.spread_held(ctx, held);
        }
        let now = ctx.now();
        let group = self.state.group_to_spread();
        let Some(leadership) = &mut self.leadership else { return };
        let Some(group) = group else {
            leadership.primaries = Primaries::default();
            return;
        };
        let primaries = &mut leadership.primaries;
        let is_second = primaries.failed % 2 == 1;
        let times = if is_second { 1 } else { 1 << (primaries.failed / 2).min(DOUBLINGS) };
        let pause = self.config.lock_timeout.times(2 * times);
        let since = *primaries.since.get_or_insert(now);
        let hold = Command::HoldGroup { group };
        if now.since(since) < pause || !leadership.quiescence.is_idle() || !self.may_log(&hold) {
            return;
        }
        if self.propose(hold)
            && let Some(leadership) = &mut self.leadership
        {
            leadership.primaries.asked = true;
            fault_point!(ctx, "control: group held, for its primaries to move");
        }
    }

    fn spread_held(&mut self, ctx: &mut Ctx<'_>, held: HeldGroup) {
        let asked = self.leadership.as_ref().is_some_and(|leadership| leadership.primaries.asked);
        let may_move = self.state.may_move_primaries(held.group);
        let found = self.quiet_in_held(ctx, held, asked && may_move);
        let now = ctx.now();
        let Some(leadership) = &mut self.leadership else { return };
        let primaries = &mut leadership.primaries;
        match found {
            Held::Waits if may_move => {}
            Held::Quiet if may_move => {
                probe!(ctx, "control: primaries move in a quiet moment");
                (primaries.failed, primaries.asked) = (0, false);
                self.propose(Command::MovePrimaries { held });
            }
            _ => {
                probe!(ctx, "control: group let go, its primaries stay");
                let failed = primaries.failed + 1;
                let again = Primaries { since: Some(now), asked: false, failed };
                if self.propose(Command::ReleaseGroup { held })
                    && let Some(leadership) = &mut self.leadership
                {
                    leadership.primaries = again;
                }
            }
        }
    }
}
