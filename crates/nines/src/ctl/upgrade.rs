//! `nines ctl upgrade`: nodes are restarted with the program that is installed now, and the upgrade
//! is ended by an order of its own.

use std::time::Duration;

use serde::Serialize;

use super::{Session, end, show};
use crate::role::request::{NodeVersion, Request, UpgradeStatus};

/// An order about an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// How far it is.
    Look,
    /// Nodes are restarted in turn.
    Run {
        /// Also where there is one copy of each row.
        force: bool,
        /// How long a node may take to be back with all its rows.
        patience: Duration,
    },
    /// There is no way back from now on.
    Finalize,
}

/// How far an upgrade is, and what each node runs.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    status: UpgradeStatus,
    versions: Vec<NodeVersion>,
}

/// Carries an order out.
pub(super) fn run(ctl: &mut Session<'_>, json: bool, order: Order) -> Result<(), String> {
    match order {
        Order::Look => {
            let status = ctl.ask(&Request::Upgrade)?;
            let told = Told { status, versions: ctl.ask(&Request::Versions)? };
            ctl.answer(json, &told, text)
        }
        Order::Run { force, patience } => {
            end::upgrade(ctl, force, patience)?;
            let status: UpgradeStatus = ctl.ask(&Request::Upgrade)?;
            ctl.line(&advice(&status))
        }
        Order::Finalize => {
            let status: UpgradeStatus = ctl.ask(&Request::Finalize)?;
            ctl.line(&advice(&status))
        }
    }
}

fn text(told: &Told) -> String {
    format!("{}\n{}\n", show::versions(&told.versions), advice(&told.status))
}

/// What is to be done next.
fn advice(status: &UpgradeStatus) -> String {
    let UpgradeStatus { finalized, newest } = status;
    if finalized >= newest {
        return format!(
            "nothing is left to be finalized: the cluster keeps to protocol {finalized}"
        );
    }
    format!(
        "the cluster keeps to protocol {finalized} of {newest}: `upgrade finalize` ends the \
         upgrade once SQL nodes are restarted too; until then the program of before can be \
         installed again, and `upgrade` goes back to it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told() {
        let said = |finalized| advice(&UpgradeStatus { finalized, newest: 18 });
        assert!(said(17).starts_with("the cluster keeps to protocol 17 of 18: `upgrade finalize`"));
        assert!(said(18).starts_with("nothing is left"));
    }
}
