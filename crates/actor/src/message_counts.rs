//! How often each message was sent and handled by a worker.

/// Counts by the short names of messages.
#[derive(Clone, Debug)]
pub struct MessageCounts {
    counts: Vec<MessageCount>,
    /// Where in `counts` a name was found last, by where its text lies: a guess, to be checked.
    places: Box<[u8; PLACES]>,
}

/// A power of two, more than the bytes of all names: their texts lie side by side, so that each has
/// a place of its own. Two names with one place would be looked for again and again.
const PLACES: usize = 4_096;

impl Default for MessageCounts {
    fn default() -> Self {
        Self { counts: Vec::new(), places: Box::new([0; PLACES]) }
    }
}

/// The counts of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount {
    /// The short name.
    pub name: &'static str,
    /// Sent by actors of the worker, to whichever worker.
    pub sent: u64,
    /// Handled by actors of the worker.
    pub handled: u64,
}

impl MessageCounts {
    /// Counts a message that is sent.
    pub fn sent(&mut self, name: &'static str) {
        self.count(name).sent += 1;
    }

    /// Counts a message that is handled.
    pub fn handled(&mut self, name: &'static str) {
        self.count(name).handled += 1;
    }

    /// All counts, by name.
    pub fn by_name(&self) -> Vec<MessageCount> {
        let mut all = self.counts.clone();
        all.sort_unstable_by_key(|count| count.name);
        all
    }

    /// The counts of a name.
    #[inline]
    fn count(&mut self, name: &'static str) -> &mut MessageCount {
        let place = name.as_ptr().addr() % PLACES;
        let guess = usize::from(self.places[place]);
        let fits = self.counts.get(guess).is_some_and(|count| std::ptr::eq(count.name, name));
        let at = if fits { guess } else { self.find(place, name) };
        &mut self.counts[at]
    }

    #[cold]
    fn find(&mut self, place: usize, name: &'static str) -> usize {
        // The compiler may have made several copies of one name.
        let at = self.counts.iter().position(|count| count.name == name);
        let at = at.unwrap_or_else(|| {
            self.counts.push(MessageCount { name, sent: 0, handled: 0 });
            self.counts.len() - 1
        });
        // Beyond what a place can say it is looked for each time.
        self.places[place] = u8::try_from(at).unwrap_or_default();
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_each_by_itself() {
        let mut counts = MessageCounts::default();
        for (name, sent, handled) in [("b", 3, 1), ("a", 1, 5), ("c", 0, 2), ("b", 2, 2)] {
            (0..sent).for_each(|_| counts.sent(name));
            (0..handled).for_each(|_| counts.handled(name));
        }
        let found: Vec<_> = counts.by_name().iter().map(|c| (c.name, c.sent, c.handled)).collect();
        assert_eq!(found, [("a", 1, 5), ("b", 5, 3), ("c", 0, 2)]);
    }
}
