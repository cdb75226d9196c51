//! The end of an upgrade: from then on the cluster does what older programs do not know.
//!
//! # Guarantees
//! It is ordered only while all management nodes of the configuration and all data nodes of node
//! groups are there, and have started: one that is missing might come back with an older program.
//! Data nodes in no node group are to be started with the new program afterwards.
//! # Not here
//! Restarting nodes with a new program (`ctl`); what members speak (`control::versions`).

use std::time::{Duration, Instant};

use cluster_config::Role;
use model::{ClusterState, Command, MemberStatus};

use super::Desk;
use crate::role::request::UpgradeStatus;
use crate::role::status::list;

/// How long the cluster may take to log it: the asker waits ten seconds.
const PATIENCE: Duration = Duration::from_secs(8);
/// How often it is ordered again.
const REPEAT: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(25);

/// How far the last upgrade is.
pub(super) fn status(state: &ClusterState) -> UpgradeStatus {
    UpgradeStatus { finalized: state.finalized(), newest: wire::PROTOCOL_VERSION }
}

impl Desk {
    /// Ends an upgrade.
    pub(super) fn finalize(&self) -> Result<UpgradeStatus, String> {
        let own = wire::PROTOCOL_VERSION;
        let state = self.board.state();
        if state.finalized() >= own {
            return Ok(status(&state));
        }
        let config = self.config();
        let is_there = |node: &&cluster_config::Node| {
            let member = state.members.get(&node.id);
            member.is_some_and(|member| member.status == MemberStatus::Active)
        };
        // Data nodes without a group may never have been started, or have left.
        let grouped = |id| state.group_with(id).is_some();
        let needed = config.nodes().iter().filter(|node| !node.role.is_client());
        let needed = needed.filter(|node| node.role != Role::Data || grouped(node.id));
        let missing: Vec<u16> =
            needed.filter(|node| !is_there(node)).map(|node| node.id.0).collect();
        if !missing.is_empty() {
            return Err(format!(
                "{} {} not there, or not complete: an older program could not come back later; \
                 start it with the new program, or take it out of the configuration",
                list(&missing),
                if missing.len() == 1 { "is" } else { "are" }
            ));
        }
        let began = Instant::now();
        let mut ordered: Option<Instant> = None;
        loop {
            let state = self.board.state();
            if state.finalized() >= own {
                return Ok(status(&state));
            }
            if began.elapsed() > PATIENCE {
                return Err(format!(
                    "the cluster has not logged it after {} s: a data or management node runs an \
                     older program (`version` shows which), or there are not enough votes; restart \
                     it with the new program",
                    PATIENCE.as_secs()
                ));
            }
            if ordered.is_none_or(|at| at.elapsed() > REPEAT) {
                self.board.order(Command::Finalize { protocol: own });
                ordered = Some(Instant::now());
            }
            std::thread::sleep(LOOK);
        }
    }
}
