//! Judges the history of the lists.
//!
//! # Guarantees
//! With the final lists as version order it finds: lost and doubled appends, reads of what was
//! aborted or half done (G1a, G1b), reads that missed what had been acknowledged, snapshots that
//! are not exactly the epochs up to theirs, epochs that run backwards, and cycles of dependencies
//! between transactions that locked what they read (G0, G1c, G2).
//!
//! A restart of the whole cluster undoes the transactions of the last epochs, and no others. So a
//! list has a version order for each generation: what is left of it, then what was seen of that
//! which the next restart has undone.

use std::collections::BTreeMap;

use model::{ClusterState, Epoch};
use stdx::Instant;

use super::{Append, List, ListBook, is_kept};
use crate::session::Ended;

/// A list in a generation.
type Version = (i64, usize);

/// The history with the final state.
pub(super) struct Judge<'a> {
    book: &'a ListBook,
    cluster: &'a ClusterState,
    lists: BTreeMap<i64, List>,
    /// Which append put an element into a list, by element.
    writers: BTreeMap<u32, u32>,
    /// Each list as it was at the end of each generation, as far as that was seen.
    versions: BTreeMap<Version, List>,
    /// For each version and length: when the first element beyond that length was acknowledged.
    first_missed: BTreeMap<Version, Vec<Option<Instant>>>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        book: &'a ListBook,
        cluster: &'a ClusterState,
        lists: BTreeMap<i64, List>,
    ) -> Self {
        let writer = |(number, append): (&u32, &Append)| {
            let number = *number;
            append.elements.iter().map(move |(_, e)| (*e, number)).collect::<Vec<_>>()
        };
        let writers = book.appends.iter().flat_map(writer).collect();
        let (versions, first_missed) = (BTreeMap::new(), BTreeMap::new());
        Self { book, cluster, lists, writers, versions, first_missed }
    }

    pub(super) fn check(mut self) {
        self.check_atomicity();
        self.build_versions();
        self.check_undone();
        self.check_epochs();
        self.note_acknowledgements();
        self.check_reads();
        self.check_torn_snapshots();
        self.check_locked_reads();
        self.check_cycles();
    }

    fn final_list(&self, list: i64) -> &[u32] {
        self.lists.get(&list).map_or(&[], Vec::as_slice)
    }

    fn version(&self, list: i64, generation: usize) -> &[u32] {
        self.versions.get(&(list, generation)).map_or(&[], Vec::as_slice)
    }

    fn append_of(&self, element: u32) -> &Append {
        let number = self.writers.get(&element);
        &self.book.appends[number.unwrap_or_else(|| panic!("element {element} out of nowhere"))]
    }

    /// Each append is in all its lists once, or in none; committed ones are, aborted ones are not,
    /// nor are those which a restart has undone.
    fn check_atomicity(&self) {
        for (list, items) in &self.lists {
            let mut seen = items.clone();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), items.len(), "list {list}: an element twice");
        }
        for (number, append) in &self.book.appends {
            let there = |(list, element): &(i64, u32)| self.final_list(*list).contains(element);
            let present = append.elements.iter().filter(|element| there(element)).count();
            let all = append.elements.len();
            match append.ended {
                Some(Ended::Committed(epoch, _)) if is_kept(self.cluster, epoch) => {
                    assert_eq!(present, all, "append {number} was committed, now lost: {append:?}");
                }
                Some(Ended::Committed(..)) => {
                    let restarts = &self.cluster.restarts;
                    assert_eq!(
                        present, 0,
                        "append {number} was undone by a restart of {restarts:?}: {append:?}"
                    );
                }
                Some(Ended::Aborted(_)) => {
                    assert_eq!(present, 0, "append {number} was aborted: {append:?}");
                }
                Some(Ended::Unknown) | None => {
                    assert!(present == 0 || present == all, "append {number} is half done");
                }
            }
        }
    }

    /// What is left of each generation, and the most that was seen of what was undone.
    fn build_versions(&mut self) {
        let last = self.cluster.restarts.len();
        let mut versions: BTreeMap<Version, List> = BTreeMap::new();
        for (list, items) in &self.lists {
            let generations = items.iter().map(|element| self.append_of(*element).generation);
            assert!(generations.is_sorted(), "list {list}: an append came back after others");
            for generation in 0..=last {
                let of = |element: &u32| self.append_of(*element).generation <= generation;
                let kept = items.iter().copied().take_while(of).collect();
                versions.insert((*list, generation), kept);
            }
        }
        let looks = self.book.looks.iter().map(|look| (look.list, look.generation, &look.items));
        let saws = self.book.appends.values().flat_map(|append| {
            let read = append.saw.iter();
            read.filter_map(|(list, saw)| Some((*list, append.generation, saw.as_ref()?)))
        });
        for (list, generation, items) in looks.chain(saws).filter(|seen| seen.1 < last) {
            let known = versions.entry((list, generation)).or_default();
            if items.len() > known.len() && items.starts_with(known) {
                known.clone_from(items);
            }
        }
        self.versions = versions;
    }

    /// What was seen and is gone is what a restart may undo, and was appended in its generation.
    fn check_undone(&self) {
        for ((list, generation), items) in &self.versions {
            let kept = items.iter().take_while(|element| self.final_list(*list).contains(element));
            for element in &items[kept.count()..] {
                let append = self.append_of(*element);
                // Only by order does a restart go back behind an earlier one.
                let later = self.cluster.restarts.get(*generation..).unwrap_or_default();
                let further = later.iter().any(|e| e.generation() as usize <= append.generation);
                assert!(
                    append.generation == *generation || further,
                    "list {list}: {append:?} came back"
                );
                let undone = match append.ended {
                    Some(Ended::Committed(epoch, _)) => !is_kept(self.cluster, epoch),
                    // Whoever tells so after the restart says that it never happened.
                    Some(Ended::Aborted(_)) => append.told > *generation,
                    Some(Ended::Unknown) | None => true,
                };
                assert!(undone, "list {list}: {element} was seen, and is gone: {append:?}");
            }
        }
    }

    fn epoch_of(&self, element: u32) -> Option<Epoch> {
        match self.append_of(element).ended {
            Some(Ended::Committed(epoch, _)) => Some(epoch),
            _ => None,
        }
    }

    /// Epochs grow along each list, and are of the generation in which the append was made.
    fn check_epochs(&self) {
        for ((list, _), items) in &self.versions {
            let mut last = Epoch(0);
            for element in items {
                if let Some(epoch) = self.epoch_of(*element) {
                    assert!(epoch >= last, "list {list}: {element} of {epoch} after {last}");
                    let append = self.append_of(*element);
                    assert_eq!(epoch.generation() as usize, append.generation, "{append:?}");
                    last = epoch;
                }
            }
        }
    }

    fn note_acknowledgements(&mut self) {
        // By list and generation: what was acknowledged, undone, and never seen.
        let mut unseen: BTreeMap<Version, Instant> = BTreeMap::new();
        for append in self.book.appends.values() {
            let Some(acknowledged) = append.acknowledged else { continue };
            for (list, element) in &append.elements {
                let version = (*list, append.generation);
                if !self.version(*list, append.generation).contains(element) {
                    let first = unseen.entry(version).or_insert(acknowledged);
                    *first = acknowledged.min(*first);
                    self.versions.entry(version).or_default();
                }
            }
        }
        for (version, items) in &self.versions {
            let mut first: Vec<Option<Instant>> = vec![None; items.len() + 1];
            first[items.len()] = unseen.get(version).copied();
            for at in (0..items.len()).rev() {
                let own = self.append_of(items[at]).acknowledged;
                first[at] = own.into_iter().chain(first[at + 1]).min();
            }
            self.first_missed.insert(*version, first);
        }
    }

    fn is_prefix(&self, list: i64, generation: usize, items: &[u32], what: &str) {
        let whole = self.version(list, generation);
        assert!(
            whole.starts_with(items),
            "{what} of list {list} is no prefix of what it became: {items:?} of {whole:?}"
        );
    }

    fn check_reads(&self) {
        for look in &self.book.looks {
            let what = match look.snapshot {
                Some(epoch) => format!("snapshot {epoch}, asked for at {},", look.asked),
                None => format!("committed read asked at {}", look.asked),
            };
            self.is_prefix(look.list, look.generation, &look.items, &what);
            let version = (look.list, look.generation);
            let missed = self.first_missed.get(&version).and_then(|f| f[look.items.len()]);
            assert!(
                missed.is_none_or(|acknowledged| acknowledged > look.asked),
                "{what} of list {} missed what was acknowledged at {missed:?}: saw {:?}",
                look.list,
                look.items
            );
            if let Some(epoch) = look.snapshot {
                self.check_snapshot(look.list, look.generation, &look.items, epoch);
            }
        }
    }

    /// An append to several lists is in all looks of one snapshot, or in none, also when nobody was
    /// told how it ended.
    fn check_torn_snapshots(&self) {
        let mut snapshots: BTreeMap<Epoch, BTreeMap<i64, &List>> = BTreeMap::new();
        for look in &self.book.looks {
            if let Some(epoch) = look.snapshot {
                snapshots.entry(epoch).or_default().insert(look.list, &look.items);
            }
        }
        for (epoch, lists) in &snapshots {
            for (number, append) in &self.book.appends {
                let seen = append.elements.iter().filter_map(|(list, element)| {
                    lists.get(list).map(|items| items.contains(element))
                });
                let seen: Vec<bool> = seen.collect();
                let whole = seen.windows(2).all(|two| two[0] == two[1]);
                assert!(whole, "snapshot {epoch} shows a part of append {number}: {append:?}");
            }
        }
    }

    /// A snapshot holds what committed up to its epoch, and nothing else.
    fn check_snapshot(&self, list: i64, generation: usize, items: &[u32], snapshot: Epoch) {
        for (at, element) in self.version(list, generation).iter().enumerate() {
            let Some(epoch) = self.epoch_of(*element) else { continue };
            let seen = at < items.len();
            assert_eq!(
                seen,
                epoch <= snapshot,
                "list {list}: snapshot {snapshot} and element {element} of {epoch}"
            );
        }
    }

    /// What a transaction read under its lock is what its own element was appended to.
    fn check_locked_reads(&self) {
        for append in self.book.appends.values() {
            for ((list, saw), (_, element)) in append.saw.iter().zip(&append.elements) {
                let saw = saw.as_deref().unwrap_or_default();
                self.is_prefix(*list, append.generation, saw, "locked read");
                let version = self.version(*list, append.generation);
                let at = version.iter().position(|e| e == element);
                if let Some(at) = at {
                    assert_eq!(at, saw.len(), "list {list}: something came between: {append:?}");
                }
            }
        }
    }

    /// Dependencies of locking transactions have no cycle.
    fn check_cycles(&self) {
        let mut after: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for items in self.versions.values() {
            for pair in items.windows(2) {
                let (earlier, later) = (self.writers[&pair[0]], self.writers[&pair[1]]);
                if earlier != later {
                    after.entry(earlier).or_default().push(later);
                }
            }
        }
        let mut arrivals: BTreeMap<u32, usize> = BTreeMap::new();
        for (from, to) in &after {
            arrivals.entry(*from).or_default();
            for to in to {
                *arrivals.entry(*to).or_default() += 1;
            }
        }
        let mut free: Vec<u32> =
            arrivals.iter().filter(|(_, count)| **count == 0).map(|(n, _)| *n).collect();
        let mut ordered = 0;
        while let Some(number) = free.pop() {
            ordered += 1;
            for next in after.get(&number).into_iter().flatten() {
                let count = arrivals.get_mut(next).expect("counted above");
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
        let cyclic: Vec<&u32> =
            arrivals.iter().filter(|(_, count)| **count > 0).map(|(n, _)| n).collect();
        assert_eq!(ordered, arrivals.len(), "transactions depend on each other: {cyclic:?}");
    }
}
