//! The actors of a worker, by kind.

use actor::Actor;
use client::{IndexBuilder, Joiner};
use control::Control;
use datanode::coordinator::Coordinator;
use datanode::epochs::Epochs;
use datanode::participant::Participant;
use model::ActorKind;

/// At most one actor of each kind.
#[derive(Default)]
pub(super) struct Actors {
    pub(super) control: Option<Control>,
    pub(super) epochs: Option<Epochs>,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) participant: Option<Participant>,
    pub(super) builder: Option<IndexBuilder>,
    pub(super) joiner: Option<Joiner>,
    pub(super) client: Option<Box<dyn Actor>>,
}

impl Actors {
    /// The actor of a kind, if the worker hosts one.
    pub(super) fn get_mut(&mut self, kind: ActorKind) -> Option<&mut dyn Actor> {
        fn some<A: Actor>(actor: &mut Option<A>) -> Option<&mut dyn Actor> {
            actor.as_mut().map(|actor| actor as &mut dyn Actor)
        }
        match kind {
            ActorKind::Control => some(&mut self.control),
            ActorKind::Epochs => some(&mut self.epochs),
            ActorKind::Coordinator => some(&mut self.coordinator),
            ActorKind::Participant => some(&mut self.participant),
            ActorKind::IndexBuilder => some(&mut self.builder),
            ActorKind::Joiner => some(&mut self.joiner),
            ActorKind::Client => match &mut self.client {
                Some(actor) => Some(actor.as_mut()),
                None => None,
            },
        }
    }

    /// All actors present.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ActorKind, &dyn Actor)> {
        fn some<A: Actor>(actor: &Option<A>) -> Option<&dyn Actor> {
            actor.as_ref().map(|actor| actor as &dyn Actor)
        }
        let all = [
            (ActorKind::Control, some(&self.control)),
            (ActorKind::Epochs, some(&self.epochs)),
            (ActorKind::Coordinator, some(&self.coordinator)),
            (ActorKind::Participant, some(&self.participant)),
            (ActorKind::IndexBuilder, some(&self.builder)),
            (ActorKind::Joiner, some(&self.joiner)),
            (ActorKind::Client, self.client.as_deref()),
        ];
        all.into_iter().filter_map(|(kind, actor)| Some((kind, actor?)))
    }
}
