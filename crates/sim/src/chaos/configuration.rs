//! Operators who change the configuration at the same time, while faults strike.

use model::Command;
use model::cluster::Revision;

use super::Chaos;
use crate::world::{Kind, World};

impl Chaos {
    /// Each management node orders another text as the same version.
    pub fn configure(world: &mut World, version: u64) {
        for node in world.nodes(Kind::Management) {
            let by = format!("node {}", node.0);
            let (fingerprint, what) = (by.clone(), vec!["something".to_owned()]);
            let restarts = vec![node.0];
            let revision = Revision { version, at: version, by, fingerprint, what, restarts };
            let text = format!("{version} of node {}", node.0);
            world.order(node, Command::Configure { text, revision });
        }
    }

    /// All nodes have one text, which is that of the last version that was logged.
    ///
    /// # Panics
    /// They have not.
    pub fn check_configured(world: &World) {
        let newest = world.newest_state();
        let newest = newest.configured.as_ref().expect("one was logged before faults struck");
        let revision = newest.revisions.last().expect("a text has a version");
        let text = format!("{} of {}", revision.version, revision.by);
        assert_eq!(*newest.text, *text, "the text is not that of its version");
        assert!((1..=2).contains(&revision.version), "version {}", revision.version);
        let kernel = world.nodes(Kind::Data).into_iter().chain(world.nodes(Kind::Management));
        for node in kernel.filter(|node| world.is_running(*node)) {
            let own = world.cluster_of(node).configured.as_ref();
            assert_eq!(own, Some(newest), "node {node} has another configuration");
        }
    }
}
