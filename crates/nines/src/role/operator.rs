//! The management node's view of the cluster: an actor that follows what the cluster agrees on.

use std::sync::{Arc, Mutex, PoisonError};

use actor::{Actor, Ctx, Timer};
use model::{Address, ClusterState};
use wire::Message;

/// The newest state of the cluster, for the threads that answer requests.
#[derive(Clone, Debug, Default)]
pub(super) struct View(Arc<Mutex<Arc<ClusterState>>>);

impl View {
    pub(super) fn state(&self) -> Arc<ClusterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps a [`View`].
pub(super) struct Operator {
    view: View,
}

impl Operator {
    pub(super) fn new(view: View) -> Self {
        Self { view }
    }
}

impl Actor for Operator {
    fn handle(&mut self, _: &mut Ctx<'_>, _: Address, _: Message) {}

    fn timeout(&mut self, _: &mut Ctx<'_>, _: Timer) {}

    fn cluster_changed(&mut self, ctx: &mut Ctx<'_>, _: &ClusterState) {
        *self.view.0.lock().unwrap_or_else(PoisonError::into_inner) = ctx.cluster().clone();
    }
}
