//! The figures of all nodes at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use actor::Metric;

use crate::role::request::Sight;

/// What all nodes told, each figure over all workers of a node.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) at: Instant,
    nodes: BTreeMap<u16, BTreeMap<(String, String), u64>>,
    /// Nodes of which some worker did not answer.
    pub(super) silent: BTreeSet<u16>,
}

impl Reading {
    /// What was told just now. Rows that cannot be understood are those of another version.
    pub(super) fn of(sight: Sight) -> Self {
        let mut nodes: BTreeMap<u16, BTreeMap<(String, String), u64>> = BTreeMap::new();
        for worker in sight.workers {
            let figures = nodes.entry(worker.node).or_default();
            for row in &worker.rows {
                let [name, labels, number] = &row[..] else { continue };
                let (Some(name), Some(labels), Some(number)) =
                    (name.as_str(), labels.as_str(), number.as_u64())
                else {
                    continue;
                };
                let figure = figures.entry((name.to_string(), labels.to_string())).or_default();
                *figure = if name == Metric::DataMemoryFullest.name() {
                    (*figure).max(number)
                } else {
                    figure.saturating_add(number)
                };
            }
        }
        Self { at: Instant::now(), nodes, silent: sight.silent.into_iter().collect() }
    }

    /// Whether a node told anything.
    pub(super) fn has(&self, node: u16) -> bool {
        self.nodes.contains_key(&node)
    }

    /// The sum of a node's figures of a metric.
    pub(super) fn sum(&self, node: u16, metric: Metric) -> u64 {
        self.by_label(node, metric).map(|(_, number)| number).sum()
    }

    /// A node's figures of a metric, by the last label.
    pub(super) fn by_label(&self, node: u16, metric: Metric) -> impl Iterator<Item = (&str, u64)> {
        let figures = self.nodes.get(&node).into_iter().flatten();
        figures
            .filter(move |((name, _), _)| name == metric.name())
            .map(|((_, labels), number)| (labels.rsplit(',').next().unwrap_or_default(), *number))
    }
}
