//! What is going to happen, in order.
//!
//! # Owns
//! Planned events, by time, then by the order in which they were planned. Turns of workers lie
//! apart: most are planned again before they come, and then the earlier plan is taken away.
//! # Not here
//! What events do (`world`), when a worker has something to do (`process`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use model::{NodeId, WorkerId};
use stdx::Instant;

use super::Event;

/// When something happens, and its place among all that was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) at: Instant,
    sequence: u64,
}

struct Planned {
    moment: Moment,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.moment == other.moment
    }
}

impl Eq for Planned {}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Planned {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives its greatest element first.
        other.moment.cmp(&self.moment)
    }
}

/// All that is planned.
#[derive(Default)]
pub(super) struct Agenda {
    planned: u64,
    events: BinaryHeap<Planned>,
    turns: BTreeMap<Moment, (NodeId, WorkerId)>,
}

/// What comes next.
pub(super) enum Next {
    Event(Event),
    /// Of a worker. It counts if the worker still has its turn at this moment.
    Turn(NodeId, WorkerId, Moment),
}

impl Agenda {
    /// Plans an event.
    pub(super) fn add(&mut self, at: Instant, event: Event) {
        let moment = self.moment(at);
        self.events.push(Planned { moment, event });
    }

    /// Plans a turn of a worker, instead of an earlier plan if there is one.
    pub(super) fn add_turn(
        &mut self,
        at: Instant,
        node: NodeId,
        worker: WorkerId,
        instead_of: Option<Moment>,
    ) -> Moment {
        if let Some(moment) = instead_of {
            self.turns.remove(&moment);
        }
        let moment = self.moment(at);
        self.turns.insert(moment, (node, worker));
        moment
    }

    /// When the next thing happens.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let turn = self.turns.first_key_value().map(|(moment, _)| moment.at);
        let event = self.events.peek().map(|planned| planned.moment.at);
        turn.into_iter().chain(event).min()
    }

    /// Takes the next thing, and when it happens.
    pub(super) fn pop(&mut self) -> Option<(Instant, Next)> {
        let event = self.events.peek().map(|planned| planned.moment);
        let turn = self.turns.first_entry();
        if let Some(turn) = turn.filter(|turn| event.is_none_or(|event| *turn.key() < event)) {
            let (moment, (node, worker)) = turn.remove_entry();
            return Some((moment.at, Next::Turn(node, worker, moment)));
        }
        let Planned { moment, event } = self.events.pop()?;
        Some((moment.at, Next::Event(event)))
    }

    fn moment(&mut self, at: Instant) -> Moment {
        self.planned += 1;
        Moment { at, sequence: self.planned }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restart(node: u16) -> Event {
        Event::Restart { node: NodeId(node) }
    }

    /// All that is left: nodes of restarts, workers of turns.
    fn rest(agenda: &mut Agenda) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        while let Some((at, next)) = agenda.pop() {
            let what = match next {
                Next::Event(Event::Restart { node }) => node.to_string(),
                Next::Event(_) => panic!("nothing else was planned"),
                Next::Turn(node, worker, _) => format!("{node}{worker}"),
            };
            all.push((at.as_nanos(), what));
        }
        all
    }

    #[test]
    fn what_is_planned_comes_by_time_and_then_as_it_was_planned() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos;
        assert_eq!(agenda.next_at(), None);
        agenda.add(at(9), restart(1));
        agenda.add_turn(at(5), NodeId(2), WorkerId(0), None);
        agenda.add(at(5), restart(3));
        agenda.add_turn(at(5), NodeId(4), WorkerId(1), None);
        assert_eq!(agenda.next_at(), Some(at(5)));
        let (first, second) = (NodeId(2), NodeId(4));
        let expected = [
            (5, format!("{first}{}", WorkerId(0))),
            (5, NodeId(3).to_string()),
            (5, format!("{second}{}", WorkerId(1))),
            (9, NodeId(1).to_string()),
        ];
        assert_eq!(rest(&mut agenda), expected);
    }

    #[test]
    fn a_turn_that_is_planned_again_comes_once() {
        let mut agenda = Agenda::default();
        let at = Instant::from_nanos;
        let late = agenda.add_turn(at(9), NodeId(1), WorkerId(0), None);
        agenda.add(at(3), restart(2));
        let early = agenda.add_turn(at(3), NodeId(1), WorkerId(0), Some(late));
        assert!(early < late);
        let turn = format!("{}{}", NodeId(1), WorkerId(0));
        assert_eq!(rest(&mut agenda), [(3, NodeId(2).to_string()), (3, turn)]);
    }
}
