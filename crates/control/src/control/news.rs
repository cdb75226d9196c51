//! What operators are told: damage on this node's disk, repairs, restarts that would lose rows.
//!
//! # Guarantees
//! The host of this node prints each of them, and each reaches every management node that lives
//! long enough to be told: it is repeated until it is heard. A management node tells the news of a
//! life once.
//! # Not here
//! What the news are (`restart`), where they are kept (the host).

use std::collections::{BTreeMap, VecDeque};

use actor::Ctx;
use model::{Address, Epoch, Incarnation, NodeId};
use wire::{ControlMessage, News, NewsKind};

use super::Control;

/// Most news of a life that are kept for management nodes which have not heard them.
const KEPT_MAX: usize = 64;

/// News of this node, and what it has heard of others.
#[derive(Debug, Default)]
pub(super) struct Bulletin {
    /// What this life has told, numbered from 1 on.
    told: VecDeque<(u64, News)>,
    count: u64,
    /// The newest that management nodes have heard.
    heard: BTreeMap<NodeId, u64>,
    /// The newest that this node has heard of others.
    known: BTreeMap<NodeId, (Incarnation, u64)>,
}

impl Control {
    /// Tells operators what has happened to this node.
    pub(super) fn announce(&mut self, ctx: &mut Ctx<'_>, kind: NewsKind, text: String) {
        self.announce_loss(ctx, kind, Epoch(0), text);
    }

    /// The same of a loss, with the epoch that remains.
    pub(super) fn announce_loss(
        &mut self,
        ctx: &mut Ctx<'_>,
        kind: NewsKind,
        epoch: Epoch,
        text: String,
    ) {
        let news = News { kind, epoch, text };
        ctx.announce(self.node, news.clone());
        let bulletin = &mut self.bulletin;
        bulletin.count += 1;
        bulletin.told.push_back((bulletin.count, news));
        if bulletin.told.len() > KEPT_MAX {
            bulletin.told.pop_front();
        }
        self.spread_news(ctx);
    }

    /// Tells management nodes what they have not heard.
    pub(super) fn spread_news(&self, ctx: &mut Ctx<'_>) {
        for node in self.config.management_nodes.iter().filter(|node| **node != self.node) {
            let heard = self.bulletin.heard.get(node).copied().unwrap_or(0);
            let new = self.bulletin.told.iter().filter(|(number, _)| *number > heard);
            for (number, news) in new {
                let (incarnation, number, news) = (self.incarnation, *number, news.clone());
                self.tell(ctx, *node, ControlMessage::News { incarnation, number, news });
            }
        }
    }

    /// A node tells what has happened to it.
    pub(super) fn receive_news(
        &mut self,
        ctx: &mut Ctx<'_>,
        from: Address,
        incarnation: Incarnation,
        number: u64,
        news: News,
    ) {
        let known = self.bulletin.known.entry(from.node).or_insert((incarnation, 0));
        if (incarnation, number) > *known {
            *known = (incarnation, number);
            ctx.announce(from.node, news);
        }
        self.tell(ctx, from.node, ControlMessage::NewsHeard { incarnation, number });
    }

    /// A management node has heard them.
    pub(super) fn receive_news_heard(
        &mut self,
        from: Address,
        incarnation: Incarnation,
        number: u64,
    ) {
        if incarnation == self.incarnation {
            let heard = self.bulletin.heard.entry(from.node).or_insert(0);
            *heard = (*heard).max(number);
        }
    }
}
