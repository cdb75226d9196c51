//! How often each message was sent and handled by a worker.

/// Counts by the short names of messages.
#[derive(Clone, Debug, Default)]
pub struct MessageCounts {
    counts: Vec<MessageCount>,
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

    /// The counts of a name. Frequent names move to the front, where they are found at once.
    fn count(&mut self, name: &'static str) -> &mut MessageCount {
        let at = self.counts.iter().position(|count| std::ptr::eq(count.name, name));
        // The compiler may have made several copies of one name.
        let at = at.or_else(|| self.counts.iter().position(|count| count.name == name));
        let at = at.unwrap_or_else(|| {
            self.counts.push(MessageCount { name, sent: 0, handled: 0 });
            self.counts.len() - 1
        });
        let ahead = at.saturating_sub(1);
        let total = |count: &MessageCount| count.sent + count.handled;
        if total(&self.counts[at]) > total(&self.counts[ahead]) {
            self.counts.swap(at, ahead);
            return &mut self.counts[ahead];
        }
        &mut self.counts[at]
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
