//! How old the accounts may be by which a statement is allowed, and how a change waits for that.
//!
//! A worker has a *lease* on the accounts it knows: [`LEASE`] from the moment at which it last
//! asked a data node for something that was answered. Every answer carries the entry of the control
//! log that the node had reached, and is heard only when this worker has reached it too. So an
//! answer proves that the worker knew at the moment of the question what the node knew.
//!
//! Who takes something away waits until every data node has reached the change, and then for as
//! long as a lease lasts: whoever still allows by older accounts has lost the lease by then.
//! Statements ask data nodes all the time, so a worker at work asks nothing for its lease.
//!
//! # Owns
//! [`LEASE`]; renewing it; the wait behind a change.
//! # Not here
//! Which answers count (`kernel`).

use std::collections::BTreeSet;

use model::{Incarnation, NodeId};
use sql_expression::SqlError;
use stdx::Duration;
use wire::Inspection;

use super::login::Candidate;
use crate::admission::ClientHost;
use crate::kernel::{Failure, Kernel};
use crate::session::Session;

/// How long a worker may allow by the accounts it knows.
pub(crate) const LEASE: Duration = Duration::from_millis(500);
/// The lease, and a tenth of it for clocks that run at different rates.
const WAIT: Duration = Duration::from_millis(550);
/// How long data nodes are waited for. One that is silent for so long is removed by then, unless
/// the cluster cannot do without it.
const SPREAD_MAX: Duration = Duration::from_millis(1_800);
/// How often data nodes are asked again that did not answer.
const ROUND: Duration = Duration::from_millis(20);

impl Session {
    /// Whether the worker has a lease on the accounts.
    pub(crate) fn has_lease(&self) -> bool {
        self.kernel.is_heard_since(LEASE)
    }

    /// Renews the worker's lease on the accounts if it has run out.
    ///
    /// # Errors
    /// The kernel's, when no data node answers: then nobody knows what is allowed.
    pub(crate) async fn renew_lease(&self) -> Result<(), SqlError> {
        if self.has_lease() { Ok(()) } else { self.hear().await }
    }

    /// Learns what some data node has learned by now, changes of accounts among it.
    async fn hear(&self) -> Result<(), SqlError> {
        Ok(hear(&self.kernel).await?)
    }

    /// Whether any account is for clients from there, by what the cluster knows now.
    pub(crate) async fn expects_client(&self, from: &ClientHost) -> bool {
        let expects = || self.shared.accounts.book(&self.kernel).expects(from);
        if expects() {
            return true;
        }
        let _ = self.hear().await;
        expects()
    }

    /// The account that a client is ([`Session::login_account`]), by what the cluster knows now.
    /// The cluster is asked for every client, so that the time tells nobody which users there are.
    /// Without a cluster nobody can say, and whoever logs in may do nothing that asks for rows.
    pub(crate) async fn client_account(
        &self,
        user: &str,
        from: &ClientHost,
    ) -> Result<Option<Candidate>, SqlError> {
        let _ = self.hear().await;
        self.login_account(user, from)
    }

    /// Whether a client is still what was found for it before it gave its proof, which may take a
    /// while: a password that is not good any more lets nobody in.
    pub(crate) async fn is_client_still(
        &self,
        found: Option<&Candidate>,
        user: &str,
        from: &ClientHost,
    ) -> Result<bool, SqlError> {
        let _ = self.renew_lease().await;
        Ok(self.login_account(user, from)?.as_ref() == found)
    }
}

/// Learns what some data node has learned by now, changes of accounts among it.
pub(crate) async fn hear(kernel: &Kernel) -> Result<(), Failure> {
    kernel.beside().newest_complete().await.map(drop)
}

/// Waits until every data node that serves has reached the state that this worker has, but no
/// longer than [`SPREAD_MAX`]. Those who have not said so.
pub(crate) async fn spread(kernel: &Kernel) -> Result<Vec<NodeId>, Failure> {
    let began = kernel.now();
    let mut answered: BTreeSet<(NodeId, Incarnation)> = BTreeSet::new();
    loop {
        let cluster = kernel.cluster();
        let lives = cluster.data_members().map(|(node, member)| (node, member.incarnation));
        let members: Vec<(NodeId, Incarnation)> = lives.collect();
        for one in kernel.beside().inspect(Inspection::Copies, None).await? {
            answered.extend(members.iter().find(|(node, _)| *node == one.node));
        }
        // One that does not answer may serve as long as it is a member.
        let cluster = kernel.cluster();
        let silent: Vec<NodeId> = cluster
            .data_members()
            .filter(|(node, member)| !answered.contains(&(*node, member.incarnation)))
            .map(|(node, _)| node)
            .collect();
        if silent.is_empty() || kernel.now().since(began) > SPREAD_MAX {
            return Ok(silent);
        }
        kernel.sleep(ROUND).await?;
    }
}

/// Waits until no worker allows anything by accounts that were older when this began; the data
/// nodes that have not said so.
pub(crate) async fn outlast(kernel: &Kernel) -> Result<Vec<NodeId>, Failure> {
    let silent = spread(kernel).await?;
    kernel.sleep(WAIT).await?;
    Ok(silent)
}
