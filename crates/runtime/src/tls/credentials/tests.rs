//! What files are of use, and what a change of them does.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::tls::tests::Directory;
use crate::tls::{Authority, NodeKey};

const LONG: Duration = Duration::from_secs(1_000);

/// Puts a node's files into a directory.
pub(crate) fn put(
    directory: &Directory,
    authority: &Authority,
    role: NodeRole,
    node: u16,
) -> NodeFiles {
    let key = NodeKey::generate().unwrap();
    let public = key.public_key_der();
    let signed = authority.sign_node(role, NodeId(node), &[], &public, LONG).unwrap();
    directory.file("node-ca.pem", authority.certificate_pem());
    directory.file("node-cert.pem", &signed.certificate_pem);
    directory.file("node-key.pem", &key.pem());
    NodeFiles::in_directory(directory.path())
}

#[test]
fn credentials_that_are_of_no_use() {
    let directory = Directory::new("node-files");
    let (authority, other) = (Authority::make().unwrap(), Authority::make().unwrap());
    let files = put(&directory, &authority, NodeRole::Data, 3);
    assert!(files.exist());
    let credentials = NodeCredentials::load(files.clone()).unwrap();
    assert_eq!(credentials.identity().to_string(), "data node 3");
    assert_eq!(credentials.identity().authority, authority.id());
    let why = || NodeCredentials::load(files.clone()).unwrap_err();
    let check = |expected: &str| {
        let found = why();
        assert!(found.contains(expected), "{found}");
    };
    // The key.
    let key = fs::read_to_string(&files.key).unwrap();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o644)).unwrap();
    check("others than its owner may use the key");
    directory.file("node-key.pem", &NodeKey::generate().unwrap().pem());
    check("node-key.pem is not that of the certificate in ");
    fs::remove_file(&files.key).unwrap();
    check("cannot read the key ");
    directory.file("node-key.pem", &key);
    // The authority.
    directory.file("node-ca.pem", other.certificate_pem());
    check("was signed by no authority in ");
    directory.file("node-ca.pem", "");
    check("node-ca.pem has no certificate in it");
    let both = format!("{}{}", other.certificate_pem(), authority.certificate_pem());
    directory.file("node-ca.pem", &both);
    NodeCredentials::load(files.clone()).unwrap();
    // Revoked.
    let serial = credentials.serial().to_uppercase();
    directory.file("node-revoked.txt", &format!("# why\n00{serial} lost\n"));
    check(" was revoked (");
    directory.file("node-revoked.txt", "0a1b\nxyz\n");
    check("node-revoked.txt, line 2: `xyz` is no serial number");
    directory.file("node-revoked.txt", "0a1b # another\n");
    assert!(NodeCredentials::load(files.clone()).unwrap().is_revoked("0A1B"));
    // A certificate of the authority that names no node.
    let server = authority.issue_server(&["localhost".to_owned()]).unwrap();
    directory.file("node-cert.pem", &server.certificate_pem);
    directory.file("node-key.pem", &server.key_pem);
    check("names no node");
    // One that is not good any more.
    let short = NodeKey::generate().unwrap();
    let past = authority.sign_node(
        NodeRole::Data,
        NodeId(3),
        &[],
        &short.public_key_der(),
        Duration::ZERO,
    );
    directory.file("node-cert.pem", &past.unwrap().certificate_pem);
    directory.file("node-key.pem", &short.pem());
    // Times have whole seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    check("has expired");
}

#[test]
fn a_change_that_is_of_no_use_revokes_and_changes_nothing_else() {
    let directory = Directory::new("node-reload");
    let authority = Authority::make().unwrap();
    let files = put(&directory, &authority, NodeRole::Sql, 101);
    let credentials = NodeCredentials::load(files.clone()).unwrap();
    let serial = credentials.serial();
    assert_eq!(credentials.look(), None);
    // A key that comes before its certificate.
    directory.file("node-key.pem", &NodeKey::generate().unwrap().pem());
    directory.file("node-revoked.txt", "77\n");
    assert_eq!(credentials.look(), None, "they may not be complete");
    assert!(credentials.look().unwrap().is_err());
    assert_eq!(credentials.look(), None, "it is said once");
    assert!(credentials.is_revoked("77"));
    assert_eq!(credentials.serial(), serial);
    put(&directory, &authority, NodeRole::Sql, 101);
    assert_eq!(credentials.reload(), Ok(true));
    assert_ne!(credentials.serial(), serial);
    assert_eq!(credentials.reload(), Ok(false));
    fs::remove_file(&files.revoked).unwrap();
    assert_eq!(credentials.reload(), Ok(true));
    assert!(!credentials.is_revoked("77"));
}
