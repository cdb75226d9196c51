//! The map beside `BTreeMap`, and what copies cost.

use std::collections::BTreeMap;

use super::*;
use crate::Prng;

type Map = SharedMap<u32, u64>;

impl<K: Ord, V> SharedMap<K, V> {
    /// Panics when a rule of the tree is broken.
    fn check(&self) {
        fn walk<K: Ord, V>(node: &Node<K, V>, root: bool, low: Option<&K>) -> (usize, usize) {
            assert!(node.len() <= ENTRIES_MAX && (root || node.len() >= ENTRIES_MIN));
            match node {
                Node::Leaf(entries) => {
                    assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0), "order");
                    assert!(entries.first().is_none_or(|(key, _)| low.is_none_or(|l| l <= key)));
                    (0, entries.len())
                }
                Node::Branch(children) => {
                    assert!(children.len() > 1, "a branch with one child");
                    assert!(children.windows(2).all(|pair| pair[0].0 < pair[1].0), "bounds");
                    let parts = children.iter().map(|(bound, c)| walk(c, false, Some(bound)));
                    let parts: Vec<_> = parts.collect();
                    assert!(parts.iter().all(|(height, _)| *height == parts[0].0), "heights");
                    (parts[0].0 + 1, parts.iter().map(|(_, len)| len).sum())
                }
            }
        }
        assert_eq!(walk(&self.root, true, None).1, self.len);
    }
}

/// Changes of a map, as a map after them would have them.
fn expected(
    before: &BTreeMap<u32, u64>,
    after: &BTreeMap<u32, u64>,
) -> Vec<(u32, [Option<u64>; 2])> {
    let keys: std::collections::BTreeSet<u32> =
        before.keys().chain(after.keys()).copied().collect();
    let both = keys.into_iter().map(|k| (k, [before.get(&k).copied(), after.get(&k).copied()]));
    both.filter(|(_, [old, new])| old != new).collect()
}

fn found(before: &Map, after: &Map) -> Vec<(u32, [Option<u64>; 2])> {
    let changes = after.changes_since(before, |a, b| a == b);
    changes.map(|c| (*c.key, [c.before.copied(), c.after.copied()])).collect()
}

#[test]
fn it_is_what_a_plain_map_is() {
    for seed in 0..60 {
        let mut prng = Prng::new(seed);
        let keys = [40, 400, 4_000][seed as usize % 3];
        let (mut map, mut plain) = (Map::new(), BTreeMap::new());
        let mut kept: Vec<(Map, BTreeMap<u32, u64>)> = vec![(map.clone(), plain.clone())];
        for step in 0..3_000u64 {
            let key = prng.below(keys) as u32;
            // Grows, shrinks, grows again.
            let removes = prng.below(10) < if step / 1_000 == 1 { 8 } else { 3 };
            if removes {
                assert_eq!(map.remove(&key), plain.remove(&key));
            } else if prng.below(4) == 0 {
                if let Some(value) = map.get_mut(&key) {
                    *value += 1;
                    *plain.get_mut(&key).unwrap() += 1;
                }
            } else {
                assert_eq!(map.insert(key, step), plain.insert(key, step));
            }
            if prng.below(100) == 0 {
                kept.push((map.clone(), plain.clone()));
            }
        }
        map.check();
        kept.push((map, plain));
        for (map, plain) in &kept {
            map.check();
            assert!(map.iter().eq(plain.iter()), "seed {seed}: a copy changes with another");
            let from = prng.below(keys) as u32;
            assert!(map.iter_from(&from).eq(plain.range(from..)), "seed {seed}: from {from}");
            assert_eq!(map.get(&from), plain.get(&from));
        }
        for pair in kept.windows(2) {
            let [(before, plain_before), (after, plain_after)] = pair else { unreachable!() };
            assert_eq!(found(before, after), expected(plain_before, plain_after), "seed {seed}");
            assert_eq!(found(after, before), expected(plain_after, plain_before), "seed {seed}");
            assert_eq!(before == after, plain_before == plain_after);
        }
        let (first, last) = (&kept[0], kept.last().unwrap());
        assert_eq!(found(&first.0, &last.0), expected(&first.1, &last.1), "seed {seed}");
        // Equal maps need not have the same tree.
        let again: Map = last.1.iter().map(|(k, v)| (*k, *v)).collect();
        assert!(again == last.0 && found(&again, &last.0).is_empty());
    }
}

/// The nodes of `after` that `before` does not have.
fn made(before: &Map, after: &Map) -> usize {
    fn all(node: &Child<u32, u64>, into: &mut Vec<*const Node<u32, u64>>) {
        into.push(Arc::as_ptr(node));
        if let Node::Branch(children) = &**node {
            children.iter().for_each(|(_, child)| all(child, into));
        }
    }
    let (mut old, mut new) = (Vec::new(), Vec::new());
    all(&before.root, &mut old);
    all(&after.root, &mut new);
    let old: std::collections::BTreeSet<_> = old.into_iter().collect();
    new.iter().filter(|node| !old.contains(*node)).count()
}

/// Keys that are compared while the changes are listed.
fn looked_at(before: &Map, after: &Map) -> usize {
    thread_local!(static COUNT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
    COUNT.set(0);
    let same = |a: &u64, b: &u64| {
        COUNT.set(COUNT.get() + 1);
        a == b
    };
    assert_eq!(after.changes_since(before, same).count(), 1);
    COUNT.get()
}

#[test]
fn a_change_costs_the_same_in_a_large_map() {
    for size in [100u32, 3_000, 200_000] {
        let map: Map = (0..size).map(|key| (2 * key, 0)).collect();
        for key in [1, size / 2 * 2 + 1, 2 * size + 1] {
            let mut after = map.clone();
            after.insert(key, 1);
            assert!(made(&map, &after) <= 8, "{} nodes made of {size}", made(&map, &after));
            assert!(looked_at(&map, &after) <= 2 * ENTRIES_MAX);
            let mut back = after.clone();
            back.remove(&key);
            assert!(made(&after, &back) <= 8 && looked_at(&after, &back) <= 2 * ENTRIES_MAX);
            assert!(back == map);
        }
    }
}
