//! The order in which updates of an epoch can be made again one after the other.
//!
//! # Owns
//! Updates that take unique values which others of the same epoch give up.
//! # Guarantees
//! Each update comes after those that give up what it takes. Where updates pass values on in a
//! circle, one of them is split: its row is deleted before all updates, and inserted after them.
//! The order follows from the updates and the order in which they are given.
//! # Not here
//! Rows and events (`binlog::table`).

use std::collections::{BTreeMap, BTreeSet};

use model::{IndexId, Key};

/// What an update does to unique values.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    /// Those that the row had, and has not any more.
    pub(super) gives: Vec<(IndexId, Key)>,
    /// Those that the row has from now on.
    pub(super) takes: Vec<(IndexId, Key)>,
    /// It can be made a deletion and an insertion.
    pub(super) can_split: bool,
}

/// In which order updates can be made, by their positions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Order {
    /// Those that become a deletion and an insertion.
    pub(super) split: BTreeSet<usize>,
    /// Those of a circle none of which can be split: at their places they come before another one
    /// has given up what they take.
    pub(super) parked: BTreeSet<usize>,
    /// All, in their order.
    pub(super) order: Vec<usize>,
}

/// Puts updates in order.
pub(super) fn ordered<'s>(steps: impl Iterator<Item = &'s Step> + Clone) -> Order {
    let givers: BTreeMap<&(IndexId, Key), usize> = steps
        .clone()
        .enumerate()
        .flat_map(|(at, step)| step.gives.iter().map(move |value| (value, at)))
        .collect();
    // By update those that come before it, and those that wait for it.
    let mut before: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut after: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.clone().enumerate() {
        for giver in step.takes.iter().filter_map(|value| givers.get(value)) {
            if *giver != at && before.entry(at).or_default().insert(*giver) {
                after.entry(*giver).or_default().push(at);
            }
        }
    }
    let mut order = Order::default();
    let can_split: Vec<bool> = steps.map(|step| step.can_split).collect();
    let mut ready: BTreeSet<usize> =
        (0..can_split.len()).filter(|at| !before.contains_key(at)).collect();
    loop {
        let next = match ready.pop_first() {
            Some(next) => next,
            None if before.is_empty() => return order,
            None => {
                let circle = circle_in(&before);
                let free = circle.iter().filter(|at| can_split[**at]).min();
                let next = free.or(circle.iter().min()).copied().unwrap_or_default();
                let kind = if free.is_some() { &mut order.split } else { &mut order.parked };
                kind.insert(next);
                before.remove(&next);
                next
            }
        };
        order.order.push(next);
        for waiting in after.remove(&next).unwrap_or_default() {
            let Some(others) = before.get_mut(&waiting) else { continue };
            others.remove(&next);
            if others.is_empty() {
                before.remove(&waiting);
                ready.insert(waiting);
            }
        }
    }
}

/// A circle among updates each of which waits for another one.
fn circle_in(before: &BTreeMap<usize, BTreeSet<usize>>) -> Vec<usize> {
    let mut path: Vec<usize> = before.keys().take(1).copied().collect();
    while let Some(last) = path.last() {
        let Some(next) = before.get(last).and_then(|others| others.first()).copied() else { break };
        if let Some(begins) = path.iter().position(|at| *at == next) {
            return path.split_off(begins);
        }
        path.push(next);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(gives: &[u8], takes: &[u8], can_split: bool) -> Step {
        let values = |values: &[u8]| -> Vec<(IndexId, Key)> {
            let key = |value: &u8| (IndexId(1), Key([*value].into()));
            values.iter().map(key).collect()
        };
        Step { gives: values(gives), takes: values(takes), can_split }
    }

    /// Makes the updates in their order; panics where one meets a duplicate.
    fn check(steps: &[Step]) -> Order {
        let order = ordered(steps.iter());
        let mut had: BTreeSet<&(IndexId, Key)> = steps.iter().flat_map(|s| &s.gives).collect();
        let mut sorted = order.order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..steps.len()).collect::<Vec<_>>(), "each once");
        for at in order.split.iter().chain(&order.parked) {
            steps[*at].gives.iter().for_each(|value| assert!(had.remove(value)));
        }
        let late = |at: &usize| order.split.contains(at) || order.parked.contains(at);
        let (last, first): (Vec<usize>, Vec<usize>) = order.order.iter().partition(|at| late(at));
        for at in first {
            steps[at].gives.iter().for_each(|value| assert!(had.remove(value)));
            steps[at].takes.iter().for_each(|value| assert!(had.insert(value), "{order:?}"));
        }
        for at in last {
            steps[at].takes.iter().for_each(|value| assert!(had.insert(value), "{order:?}"));
        }
        order
    }

    #[test]
    fn a_value_is_given_up_before_it_is_taken() {
        // 1 → 2 → 3 → 4: the last one goes first.
        let chain = [step(&[1], &[2], false), step(&[2], &[3], false), step(&[3], &[4], false)];
        let order = check(&chain);
        assert_eq!((order.order, order.split.len()), (vec![2, 1, 0], 0));
        assert_eq!(check(&[step(&[1], &[2], true), step(&[3], &[4], true)]).order, [0, 1]);
    }

    #[test]
    fn a_circle_is_broken_where_all_values_are_known() {
        let circle = [step(&[1], &[2], false), step(&[2], &[3], true), step(&[3], &[1], false)];
        let order = check(&circle);
        assert_eq!(order.split, [1].into());
        // One that waits for a circle is not split for it.
        let behind = [step(&[5], &[1], true), step(&[1], &[2], false), step(&[2], &[1], true)];
        let order = ordered(behind.iter());
        assert_eq!((order.split, order.parked.len()), ([2].into(), 0));
        let stuck = [step(&[1], &[2], false), step(&[2], &[1], false)];
        let order = check(&stuck);
        assert_eq!((order.parked, order.split.len()), ([0].into(), 0));
    }

    #[test]
    fn any_passing_on_of_values_can_be_made_again() {
        let mut prng = stdx::Prng::new(7);
        for _ in 0..500 {
            let mut to: Vec<u8> = (0..12).collect();
            for at in 0..12 {
                to.swap(at, prng.below(12) as usize);
            }
            let changed = (0..12_u8).filter(|from| to[usize::from(*from)] != *from);
            let steps: Vec<Step> = changed
                .map(|from| step(&[from], &[to[usize::from(from)]], prng.below(2) == 0))
                .collect();
            check(&steps);
        }
    }
}
