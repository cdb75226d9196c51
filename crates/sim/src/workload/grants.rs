//! Accounts that everybody changes, two at a time, from what each has seen of them.
//!
//! An account of the catalog is a name with a text of the SQL layer's; here the text is a version.
//! Two accounts make a pair, as a role and who is granted it: both get the next version in one
//! change, made from the accounts that the session knows.
//!
//! Judged by: each version is acknowledged to one session only, as a change that was made from
//! older accounts is refused as a whole; both of a pair have the same version, wherever one looks;
//! all who have seen accounts as of one entry of the control log have seen the same, and versions
//! only grow from entry to entry; and what was acknowledged is there at the end, whatever has
//! failed or was restarted since.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use model::{ClusterState, ControlIndex, ErrorCode, Refusal, SchemaChange};

use crate::lab::Lab;
use crate::session::{Session, is_passing};

/// Pairs of accounts: few, so that sessions meet.
const PAIRS: usize = 3;
/// Entries of the control log of which it is kept what accounts were seen.
const SEEN_MAX: usize = 256;

type Versions = [u64; PAIRS];

/// What is known of the accounts.
#[derive(Debug, Default)]
pub struct GrantBook {
    /// Versions of each pair that somebody was told to have made.
    acknowledged: [BTreeSet<u64>; PAIRS],
    /// The newest version of each pair that anybody has begun to make.
    begun: Versions,
    /// What was seen as of an entry of the control log.
    seen: BTreeMap<ControlIndex, Versions>,
}

impl GrantBook {
    /// Takes note of the accounts that somebody sees.
    fn look(&mut self, cluster: &ClusterState) -> Versions {
        let versions = std::array::from_fn(|pair| version_of(cluster, pair));
        let at = cluster.accounts_changed;
        if self.seen.len() >= SEEN_MAX && !self.seen.contains_key(&at) {
            self.seen.pop_first();
        }
        let first = *self.seen.entry(at).or_insert(versions);
        assert_eq!(first, versions, "accounts as of {at:?}, seen by two");
        let earlier = self.seen.range(..at).next_back().map(|(_, versions)| *versions);
        let later = self.seen.range(ControlIndex(at.0 + 1)..).next().map(|(_, versions)| *versions);
        let grow = |from: Versions, to: Versions| from.iter().zip(to).all(|(from, to)| *from <= to);
        let in_order = earlier.is_none_or(|earlier| grow(earlier, versions))
            && later.is_none_or(|later| grow(versions, later));
        assert!(in_order, "accounts go back: {earlier:?}, {versions:?}, {later:?}");
        for (found, begun) in versions.iter().zip(self.begun) {
            assert!(*found <= begun, "version {found}, and nobody has begun more than {begun}");
        }
        versions
    }

    fn acknowledge(&mut self, pair: usize, version: u64) {
        let first = self.acknowledged[pair].insert(version);
        assert!(first, "version {version} of pair {pair} was acknowledged to two sessions");
    }

    /// Compares the accounts that somebody has just changed with the book: what was seen before is
    /// all but that change.
    fn check(&self, before: &ClusterState) {
        for (pair, acknowledged) in self.acknowledged.iter().enumerate() {
            let newest = acknowledged.last().copied().unwrap_or(0);
            let found = version_of(before, pair) + 1;
            assert!(found >= newest, "pair {pair}: {found}, and {newest} was acknowledged");
        }
    }
}

fn names(pair: usize) -> [String; 2] {
    [format!("role{pair}@%"), format!("user{pair}@%")]
}

/// The version of a pair, 0 before there is one.
fn version_of(cluster: &ClusterState, pair: usize) -> u64 {
    let version = |name: &String| {
        let text = cluster.accounts.get(name.as_str())?;
        std::str::from_utf8(text).ok()?.parse::<u64>().ok()
    };
    let [role, user] = names(pair).each_ref().map(version);
    assert_eq!(role, user, "both accounts of pair {pair} change together");
    role.unwrap_or(0)
}

/// Looks at the accounts and changes a pair, from what the session sees.
pub(super) async fn round(session: &Session, lab: &Rc<Lab>) -> Result<(), Refusal> {
    session.pause(40).await;
    change(session, lab).await.map(drop)
}

/// Whether a pair was changed: another session may have been faster.
async fn change(session: &Session, lab: &Rc<Lab>) -> Result<bool, Refusal> {
    let pair = session.below(PAIRS as u64) as usize;
    let cluster = session.cluster();
    let version = {
        let mut book = lab.grants.borrow_mut();
        let version = book.look(&cluster)[pair] + 1;
        book.begun[pair] = book.begun[pair].max(version);
        version
    };
    let text: model::Description = version.to_string().into_bytes().into();
    let changes = names(pair).map(|name| (name, Some(text.clone()))).to_vec();
    let seen = cluster.accounts_changed;
    match session.schema(SchemaChange::ChangeAccounts { seen, changes }).await {
        Ok(_) => {
            lab.grants.borrow_mut().acknowledge(pair, version);
            Ok(true)
        }
        Err(refusal) if refusal.code == ErrorCode::SchemaChanged => Ok(false),
        Err(refusal) if is_passing(&refusal) => Err(refusal),
        Err(refusal) => panic!("a change of accounts: {refusal}"),
    }
}

/// Compares with the book, once a change has shown that this session knew the newest accounts.
pub(super) async fn audit(session: &Session, lab: &Rc<Lab>) {
    loop {
        let before = session.cluster();
        match change(session, lab).await {
            Ok(true) => break lab.grants.borrow().check(&before),
            Ok(false) => {}
            Err(refusal) => assert!(is_passing(&refusal), "at the end: {refusal}"),
        }
        session.pause(50).await;
    }
}
