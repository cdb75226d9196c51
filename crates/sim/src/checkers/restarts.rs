//! What a restart of the whole cluster may undo, and what it may not.

use std::sync::Arc;

use model::{ClusterState, Epoch};
use stdx::Instant;

use crate::world::World;

/// Restarts of the whole cluster seen so far.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// Their epochs, oldest first.
    seen: Vec<Epoch>,
    /// What was acknowledged until then must outlive the next restart.
    promised: Instant,
    /// An operator lets the next restart go back to this epoch, whatever is lost.
    accepted: Option<Epoch>,
}

/// Whether what committed in an epoch has outlived these restarts.
fn is_kept(restarts: &[Epoch], epoch: Epoch) -> bool {
    let later = restarts.get(epoch.generation() as usize..).unwrap_or_default();
    later.iter().all(|restored| epoch <= *restored)
}

impl World {
    /// The next restart of the whole cluster must not undo what was acknowledged until then.
    pub fn promise(&mut self, until: Instant) {
        self.restarts_mut().promised = until;
    }

    /// The next restart may go back to this epoch, and to no other one.
    pub fn accept_loss_down_to(&mut self, epoch: Epoch) {
        self.restarts_mut().accepted = Some(epoch);
    }

    /// Restarts of the whole cluster so far.
    pub fn restart_count(&self) -> usize {
        self.restarts().seen.len()
    }

    /// A node has reached a state: the restarts in it go back no further than they may.
    pub(crate) fn check_restarts(&mut self, state: &Arc<ClusterState>) {
        let seen = &self.restarts().seen;
        let known = seen.len().min(state.restarts.len());
        assert_eq!(seen[..known], state.restarts[..known], "the past has changed");
        if !state.started || state.restarts.len() == known {
            return;
        }
        let all = &state.restarts;
        let accepted = self.restarts().accepted;
        if let Some(accepted) = accepted {
            assert_eq!(all.last(), Some(&accepted), "another epoch was accepted");
        }
        if let Some(last) = seen.last() {
            let kept = accepted.is_some() || is_kept(all, *last);
            assert!(kept, "a restart undoes what the last one has brought back: {all:?}");
        }
        let promised = self.restarts().promised;
        for told in self.ambient().acknowledged.borrow().iter() {
            if accepted.is_some() || is_kept(all, told.epoch) {
                continue;
            }
            assert!(!told.durable, "{told:?} was on disk: {all:?}");
            // A client may hear of a commit after a restart that has undone it.
            if !is_kept(seen, told.epoch) {
                continue;
            }
            assert!(told.at > promised, "{told:?} had time enough, {promised}: {all:?}");
        }
        self.ambient().acknowledged.borrow_mut().clear();
        let restarts = self.restarts_mut();
        restarts.seen = state.restarts.clone();
        restarts.promised = Instant::ZERO;
        restarts.accepted = None;
    }
}
