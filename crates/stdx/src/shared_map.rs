//! An ordered map whose copies share what they have in common.
//!
//! # Owns
//! [`SharedMap`], a persistent B-tree: a copy costs nothing, a change of a copy makes new only the
//! nodes on the way to it, and what is different in two copies is found without a look at what
//! they share.
//! # Guarantees
//! The same entries in the same order as in a `BTreeMap` after the same changes.
//! # Not here
//! Its form in messages and files: a map like any other, see `model`.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

/// Most entries of a node.
const ENTRIES_MAX: usize = 32;
/// Fewest entries of a node that is not the root.
const ENTRIES_MIN: usize = 8;

/// An ordered map. A copy is made in constant time.
#[derive(Clone)]
pub struct SharedMap<K, V> {
    root: Arc<Node<K, V>>,
    len: usize,
}

/// A node of the tree. All leaves are at the same depth.
#[derive(Clone)]
enum Node<K, V> {
    /// Entries, ascending.
    Leaf(Vec<(K, V)>),
    /// Children, ascending, each with a key that none of its own is below.
    Branch(Vec<(K, Child<K, V>)>),
}

type Child<K, V> = Arc<Node<K, V>>;

/// What is different about a key in two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a, K, V> {
    /// The key.
    pub key: &'a K,
    /// Its value in the map before; none when it had none.
    pub before: Option<&'a V>,
    /// Its value in the map after; none when it has none.
    pub after: Option<&'a V>,
}

impl<K, V> SharedMap<K, V> {
    /// An empty map.
    pub fn new() -> Self {
        Self { root: Arc::new(Node::Leaf(Vec::new())), len: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, ascending.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { cursor: Cursor::new(&self.root) }
    }

    /// All keys, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &K> + use<'_, K, V> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, by ascending keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + use<'_, K, V> {
        self.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
                    return Some(&entries[at].1);
                }
                Node::Branch(children) => node = &children[child_of(children, key)].1,
            }
        }
    }

    /// Whether a key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// The entries from the first on whose key is not below `key`, ascending.
    pub fn iter_from<Q: Ord + ?Sized>(&self, key: &Q) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let mut stack = Vec::new();
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let at = entries.partition_point(|(own, _)| own.borrow() < key);
                    stack.push((node, at));
                    return Iter { cursor: Cursor { stack, height: 0 } };
                }
                Node::Branch(children) => {
                    let at = child_of(children, key);
                    stack.push((node, at + 1));
                    node = &children[at].1;
                }
            }
        }
    }

    /// What is different here from `before`, by ascending keys. Values that `same` holds for are
    /// not. What the two maps share is not looked at.
    pub fn changes_since<'a>(
        &'a self,
        before: &'a Self,
        same: fn(&V, &V) -> bool,
    ) -> Changes<'a, K, V> {
        if Arc::ptr_eq(&self.root, &before.root) {
            let none = || Cursor { stack: Vec::new(), height: 0 };
            return Changes { before: none(), after: none(), same };
        }
        Changes { before: Cursor::new(&before.root), after: Cursor::new(&self.root), same }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// The value of a key, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let mut node = &mut self.root;
        loop {
            match Arc::make_mut(node) {
                Node::Leaf(entries) => {
                    let at = entries.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
                    return Some(&mut entries[at].1);
                }
                Node::Branch(children) => {
                    let at = child_of(children, key);
                    node = &mut children[at].1;
                }
            }
        }
    }

    /// Gives a key a value; its value before is returned.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = Arc::make_mut(&mut self.root).insert(key, value);
        self.len += usize::from(before.is_none());
        if self.root.len() > ENTRIES_MAX {
            let left = std::mem::replace(&mut self.root, Arc::new(Node::Leaf(Vec::new())));
            let mut children = vec![(left.least().clone(), left)];
            split_child(&mut children, 0);
            self.root = Arc::new(Node::Branch(children));
        }
        before
    }

    /// Takes a key and its value out.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if !self.contains_key(key) {
            return None;
        }
        let before = Arc::make_mut(&mut self.root).remove(key);
        self.len -= 1;
        if let Node::Branch(children) = &*self.root
            && let [(_, only)] = children.as_slice()
        {
            self.root = only.clone();
        }
        before
    }
}

/// The position of the child that has the key, if any has.
fn child_of<K: Borrow<Q>, Q: Ord + ?Sized, C>(children: &[(K, C)], key: &Q) -> usize {
    children.partition_point(|(bound, _)| bound.borrow() <= key).saturating_sub(1)
}

/// Makes two children of one that has too many entries.
fn split_child<K: Ord + Clone, V: Clone>(children: &mut Vec<(K, Child<K, V>)>, at: usize) {
    let right = match Arc::make_mut(&mut children[at].1) {
        Node::Leaf(entries) => Node::Leaf(entries.split_off(entries.len() / 2)),
        Node::Branch(inner) => Node::Branch(inner.split_off(inner.len() / 2)),
    };
    children.insert(at + 1, (right.least().clone(), Arc::new(right)));
}

impl<K, V> Node<K, V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(children) => children.len(),
        }
    }

    /// A key that none in the node is below. Of a node that is not empty.
    fn least(&self) -> &K {
        match self {
            Node::Leaf(entries) => &entries[0].0,
            Node::Branch(children) => &children[0].0,
        }
    }

    fn height(&self) -> usize {
        match self {
            Node::Leaf(_) => 0,
            Node::Branch(children) => 1 + children[0].1.height(),
        }
    }
}

impl<K: Ord + Clone, V: Clone> Node<K, V> {
    /// The node may have one entry too many afterwards.
    fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Node::Leaf(entries) => match entries.binary_search_by(|(own, _)| own.cmp(&key)) {
                Ok(at) => Some(std::mem::replace(&mut entries[at].1, value)),
                Err(at) => {
                    entries.insert(at, (key, value));
                    None
                }
            },
            Node::Branch(children) => {
                let at = child_of(children, &key);
                if key < children[at].0 {
                    children[at].0 = key.clone();
                }
                let before = Arc::make_mut(&mut children[at].1).insert(key, value);
                if children[at].1.len() > ENTRIES_MAX {
                    split_child(children, at);
                }
                before
            }
        }
    }

    /// The node may have one entry too few afterwards.
    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        match self {
            Node::Leaf(entries) => {
                let at = entries.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
                Some(entries.remove(at).1)
            }
            Node::Branch(children) => {
                let at = child_of(children, key);
                let before = Arc::make_mut(&mut children[at].1).remove(key);
                if children[at].1.len() < ENTRIES_MIN {
                    // Every branch has at least two children.
                    let left = at.saturating_sub(1);
                    let (_, right) = children.remove(left + 1);
                    let right = Arc::unwrap_or_clone(right);
                    match (Arc::make_mut(&mut children[left].1), right) {
                        (Node::Leaf(entries), Node::Leaf(more)) => entries.extend(more),
                        (Node::Branch(inner), Node::Branch(more)) => inner.extend(more),
                        _ => unreachable!("all leaves are at the same depth"),
                    }
                    if children[left].1.len() > ENTRIES_MAX {
                        split_child(children, left);
                    }
                }
                before
            }
        }
    }
}

/// A place in a tree: the nodes on the way to it, each with the position after those passed.
struct Cursor<'a, K, V> {
    stack: Vec<(&'a Node<K, V>, usize)>,
    /// Of the root.
    height: usize,
}

/// What is at a place.
enum Item<'a, K, V> {
    Entry(&'a K, &'a V),
    Subtree(&'a K, &'a Child<K, V>),
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn new(root: &'a Node<K, V>) -> Self {
        Self { stack: vec![(root, 0)], height: root.height() }
    }

    /// What is here, not yet passed.
    fn peek(&mut self) -> Option<Item<'a, K, V>> {
        loop {
            let (node, at) = *self.stack.last()?;
            let item = match node {
                Node::Leaf(entries) => entries.get(at).map(|(k, v)| Item::Entry(k, v)),
                Node::Branch(children) => children.get(at).map(|(k, c)| Item::Subtree(k, c)),
            };
            if item.is_some() {
                return item;
            }
            self.stack.pop();
        }
    }

    fn pass(&mut self) {
        if let Some((_, at)) = self.stack.last_mut() {
            *at += 1;
        }
    }

    /// Goes on inside the subtree that is here.
    fn enter(&mut self, subtree: &'a Child<K, V>) {
        self.pass();
        self.stack.push((subtree, 0));
    }

    /// The height of the subtree that is here.
    fn height_here(&self) -> usize {
        self.height - self.stack.len()
    }
}

/// The entries of a map, ascending.
pub struct Iter<'a, K, V> {
    cursor: Cursor<'a, K, V>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.cursor.peek()? {
                Item::Entry(key, value) => {
                    self.cursor.pass();
                    return Some((key, value));
                }
                Item::Subtree(_, subtree) => self.cursor.enter(subtree),
            }
        }
    }
}

/// What is different in two maps, by ascending keys.
pub struct Changes<'a, K, V> {
    before: Cursor<'a, K, V>,
    after: Cursor<'a, K, V>,
    same: fn(&V, &V) -> bool,
}

impl<'a, K: Ord, V> Changes<'a, K, V> {
    fn removed(&mut self, key: &'a K, value: &'a V) -> Change<'a, K, V> {
        self.before.pass();
        Change { key, before: Some(value), after: None }
    }

    fn added(&mut self, key: &'a K, value: &'a V) -> Change<'a, K, V> {
        self.after.pass();
        Change { key, before: None, after: Some(value) }
    }

    /// Passes two subtrees if they are the same one, otherwise enters the one that reaches further
    /// up or begins first, so that both come to what they share at the same time.
    fn approach(&mut self, old: (&K, &'a Child<K, V>), new: (&K, &'a Child<K, V>)) {
        if Arc::ptr_eq(old.1, new.1) {
            self.before.pass();
            return self.after.pass();
        }
        let higher = self.before.height_here().cmp(&self.after.height_here());
        let first = higher.reverse().then_with(|| old.0.cmp(new.0));
        if first != Ordering::Greater {
            self.before.enter(old.1);
        }
        if first != Ordering::Less {
            self.after.enter(new.1);
        }
    }
}

impl<'a, K: Ord, V> Iterator for Changes<'a, K, V> {
    type Item = Change<'a, K, V>;

    fn next(&mut self) -> Option<Self::Item> {
        use Item::{Entry, Subtree};
        loop {
            match (self.before.peek(), self.after.peek()) {
                (None, None) => return None,
                (Some(Subtree(low, old)), Some(Subtree(least, new))) => {
                    self.approach((low, old), (least, new));
                }
                (Some(Subtree(low, old)), Some(Entry(key, value))) => {
                    if key < low {
                        return Some(self.added(key, value));
                    }
                    self.before.enter(old);
                }
                (Some(Entry(key, value)), Some(Subtree(least, new))) => {
                    if key < least {
                        return Some(self.removed(key, value));
                    }
                    self.after.enter(new);
                }
                (Some(Entry(key, old)), Some(Entry(new_key, new))) => match key.cmp(new_key) {
                    Ordering::Less => return Some(self.removed(key, old)),
                    Ordering::Greater => return Some(self.added(new_key, new)),
                    Ordering::Equal => {
                        self.before.pass();
                        self.after.pass();
                        if !(self.same)(old, new) {
                            return Some(Change { key, before: Some(old), after: Some(new) });
                        }
                    }
                },
                (Some(Subtree(_, old)), None) => self.before.enter(old),
                (None, Some(Subtree(_, new))) => self.after.enter(new),
                (Some(Entry(key, old)), None) => return Some(self.removed(key, old)),
                (None, Some(Entry(key, new))) => return Some(self.added(key, new)),
            }
        }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.changes_since(other, |a, b| a == b).next().is_none()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SharedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<'a, K, V> IntoIterator for &'a SharedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SharedMap<K, V> {
    type Output = V;

    /// Panics when the key has no value.
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the key has a value")
    }
}

#[cfg(test)]
mod tests;
