//! What an authority signs, and what it refuses.

use std::sync::atomic::{AtomicU32, Ordering};

use runtime::NodeIdentity;

use super::*;

/// A directory that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nines-registry-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn open(&self, own: u16, makes: bool) -> Option<Registry> {
        self.open_for(own, makes, 90 * 86_400)
    }

    fn open_for(&self, own: u16, makes: bool, lifetime: u64) -> Option<Registry> {
        let lifetime = Duration::from_secs(lifetime);
        let opened = Registry::open(&self.0, NodeId(own), makes, lifetime, &["host".to_owned()]);
        opened.unwrap_or_else(|why| panic!("{why}")).map(|(registry, _)| registry)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A new key, and a request for a certificate.
fn request() -> (String, String) {
    let key = NodeKey::generate().unwrap().pem();
    let request = runtime::signing_request(&key).unwrap();
    (key, request)
}

/// Shows a token for a role and a node.
fn join(
    registry: &Registry,
    token: &str,
    role: &str,
    node: u16,
    request: &str,
) -> Result<Certified, String> {
    let (id, secret) = Token::parse(token).unwrap().proof();
    registry.join(&id, &secret, &Applicant { role, node, request, names: &[] })
}

/// Nodes have had the time to learn of the authority that signs.
fn as_if_time_had_passed(registry: &Registry) {
    let changed = registry.change(|_, ledger| {
        ledger.since -= GRACE.as_secs();
        Ok(())
    });
    changed.unwrap();
}

fn identity(certified: &Certified) -> NodeIdentity {
    NodeIdentity::of_pem(&certified.certificate).unwrap()
}

#[test]
fn a_token_makes_one_node_and_survives_a_restart() {
    let place = Place::new();
    assert!(place.open(50, false).is_none(), "only the first one makes an authority");
    let registry = place.open(49, true).unwrap();
    let token = registry.create_token(NodeRole::Data, None, 60).unwrap();
    drop(registry);
    let books = fs::read_to_string(place.0.join(LEDGER_FILE)).unwrap();
    assert!(!books.contains(&Token::parse(&token).unwrap().secret), "{books}");
    let registry = place.open(49, true).unwrap();
    let (_, first) = request();
    let wrong = join(&registry, &token, "sql", 51, &first).unwrap_err();
    assert!(wrong.contains("for the role data, not sql"), "{wrong}");
    let certified = join(&registry, &token, "data", 3, &first).unwrap();
    let named = identity(&certified);
    assert_eq!((named.role, named.node), (NodeRole::Data, NodeId(3)));
    assert_eq!(certified.authority, None, "the key of the authority is for management nodes");
    // The answer may have been lost; but the token is for this key and this node.
    join(&registry, &token, "data", 3, &first).unwrap();
    assert!(join(&registry, &token, "data", 4, &first).unwrap_err().contains("for node 3"));
    let (_, second) = request();
    drop(registry);
    let registry = place.open(49, true).unwrap();
    for node in [3, 4] {
        let why = join(&registry, &token, "data", node, &second).unwrap_err();
        assert!(why.contains("good once"), "{why}");
    }
    // Another token does not make somebody the node that is there already, unless it names it.
    let any = registry.create_token(NodeRole::Data, None, 60).unwrap();
    let (id, secret) = Token::parse(&any).unwrap().proof();
    assert_eq!(registry.preview(&id, &secret, "data"), Ok((None, vec![3, 3])));
    let why = join(&registry, &any, "data", 3, &second).unwrap_err();
    assert!(why.contains("has a certificate already"), "{why}");
    let named = registry.create_token(NodeRole::Data, Some(3), 60).unwrap();
    assert!(join(&registry, &named, "data", 4, &second).unwrap_err().contains("for node 3"));
    join(&registry, &named, "data", 3, &second).unwrap();
    // One that was revoked, and one that nobody knows.
    let gone = registry.create_token(NodeRole::Ctl, None, 60).unwrap();
    registry.revoke_token(&Token::parse(&gone).unwrap().id).unwrap();
    assert!(join(&registry, &gone, "ctl", 0, &second).unwrap_err().contains("revoked"));
    let foreign = Token::new(NodeRole::Data, "0".repeat(32)).unwrap().to_string();
    assert!(join(&registry, &foreign, "data", 5, &second).unwrap_err().contains("no token"));
    let states: Vec<String> = registry.tokens().into_iter().map(|token| token.state).collect();
    assert_eq!(states, ["used", "good", "used", "revoked"]);
    assert!(registry.create_token(NodeRole::Data, None, 0).is_err());
}

#[test]
fn a_second_management_node_signs_for_the_same_cluster() {
    let (one, other) = (Place::new(), Place::new());
    let first = one.open(49, true).unwrap();
    let token = first.create_token(NodeRole::Management, Some(50), 60).unwrap();
    let (key, asked) = request();
    let certified = join(&first, &token, "management", 50, &asked).unwrap();
    super::super::super::credentials::keep(&other.0, &key, &certified).unwrap();
    let (certificate, authority_key) = certified.authority.clone().unwrap();
    write(&other.0, CERTIFICATE_FILE, &certificate).unwrap();
    write(&other.0, KEY_FILE, &authority_key).unwrap();
    let second = other.open(50, false).unwrap();
    assert_eq!(second.trust().signs, first.trust().signs);
    // What one has revoked the other learns, with what it has signed.
    let token = second.create_token(NodeRole::Sql, None, 60).unwrap();
    join(&second, &token, "sql", 51, &request().1).unwrap();
    first.merge(second.shared()).unwrap();
    let gone = first.revoke("51").unwrap();
    assert_eq!(gone.len(), 1);
    second.merge(first.shared()).unwrap();
    assert_eq!(second.trust().revoked, format!("{}\n", gone[0].serial));
    assert!(second.credentials().is_revoked(&gone[0].serial));
    // Another authority, too.
    let id = first.new_authority().unwrap();
    second.merge(first.shared()).unwrap();
    assert_eq!(second.trust().signs, id);
    assert_eq!(second.list().authorities, first.list().authorities);
    // And which one is trusted no more, once neither of them needs it.
    let before = first.list().authorities[1].clone();
    for registry in [&first, &second] {
        as_if_time_had_passed(registry);
    }
    assert_eq!(first.renew_own(&[]), Ok(true));
    first.merge(second.shared()).unwrap();
    assert!(first.retire_authority(&before).unwrap_err().contains("management node 50"));
    assert_eq!(second.renew_own(&[]), Ok(true));
    first.merge(second.shared()).unwrap();
    first.retire_authority(&before).unwrap();
    second.merge(first.shared()).unwrap();
    assert_eq!(second.list().authorities, [id]);
}

#[test]
fn certificates_are_revoked_by_number_node_and_operator() {
    let place = Place::new();
    let registry = place.open(49, true).unwrap();
    registry.create_operator("ann", &request().1).unwrap();
    registry.create_operator("bob", &request().1).unwrap();
    let token = registry.create_token(NodeRole::Data, None, 60).unwrap();
    join(&registry, &token, "data", 1, &request().1).unwrap();
    registry.server(51, &request().1, &["db".to_owned()]).unwrap();
    let of = |registry: &Registry| -> Vec<String> {
        registry.list().certificates.iter().map(ToString::to_string).collect()
    };
    let all = ["management node 49", "operator ann", "operator bob", "data node 1"];
    assert_eq!(of(&registry), [&all[..], &["server of SQL node 51"]].concat());
    assert!(registry.revoke("7").unwrap_err().contains("no good certificate of `7`"));
    assert!(registry.revoke("49").unwrap_err().contains("management node 49 itself"));
    assert_eq!(registry.revoke("operator bob").unwrap().len(), 1);
    assert_eq!(registry.revoke("1").unwrap().len(), 1);
    let ann = registry.list().certificates[1].serial.clone();
    assert_eq!(registry.revoke(&ann.to_uppercase()).unwrap().len(), 1);
    // One that is in no book.
    let unknown = "4".repeat(40);
    assert_eq!(registry.revoke(&unknown), Ok(Vec::new()));
    assert!(registry.credentials().is_revoked(&unknown));
    assert_eq!(of(&registry), ["management node 49", "server of SQL node 51"]);
    drop(registry);
    let registry = place.open(49, true).unwrap();
    assert_eq!(registry.trust().revoked.lines().count(), 4);
}

#[test]
fn another_authority_takes_the_place_of_one() {
    let place = Place::new();
    let registry = place.open(49, true).unwrap();
    let before = registry.trust().signs;
    let token = registry.create_token(NodeRole::Data, None, 60).unwrap();
    join(&registry, &token, "data", 1, &request().1).unwrap();
    let id = registry.new_authority().unwrap();
    let trust = registry.trust();
    assert_eq!((&trust.signs, trust.renew), (&id, false), "nodes have time to learn of it");
    assert_eq!(Authority::ids(&trust.authorities), [id.clone(), before.clone()]);
    assert_eq!(registry.renew_own(&[]), Ok(false), "nor does it show what they cannot check");
    let why = registry.retire_authority(&before).unwrap_err();
    assert!(why.contains("in use: data node 1, management node 49"), "{why}");
    as_if_time_had_passed(&registry);
    assert!(registry.trust().renew);
    assert_eq!(registry.renew_own(&[]), Ok(true));
    assert_eq!(registry.credentials().identity().authority, id);
    assert_eq!(registry.renew_own(&[]), Ok(false));
    registry.renew(NodeRole::Data, 1, "", &request().1, &[]).unwrap();
    assert!(registry.retire_authority(&id).unwrap_err().contains("signs"));
    assert!(registry.retire_authority("x").is_err());
    assert_eq!(registry.retire_authority(&before[..8]).unwrap(), before);
    assert_eq!(Authority::ids(&registry.trust().authorities), std::slice::from_ref(&id));
    // The key is lost: what nodes trust stays, and they learn of the next one.
    drop(registry);
    fs::remove_file(place.0.join(KEY_FILE)).unwrap();
    let registry = place.open(49, true).unwrap();
    let ids = registry.list().authorities;
    assert_eq!((ids.len(), &ids[1]), (2, &id));
    assert_eq!(registry.credentials().identity().authority, id, "as long as nodes know that one");
}

#[test]
fn an_operator_that_renews_its_certificate_keeps_its_name_and_is_revoked_by_it() {
    let place = Place::new();
    let registry = place.open(49, true).unwrap();
    registry.create_operator("Ann", &request().1).unwrap();
    registry.create_operator("Bob", &request().1).unwrap();
    let of = |name: &str| {
        let all = registry.list().certificates;
        all.into_iter().filter(|record| record.name == name).collect::<Vec<IssuedRecord>>()
    };
    let serial = of("Ann")[0].serial.clone();
    let renew = |serial: &str| registry.renew(NodeRole::Ctl, 0, serial, &request().1, &[]);
    assert!(renew("0123").unwrap_err().contains("create-operator"));
    renew(&serial).unwrap();
    let second = of("Ann")[1].serial.clone();
    renew(&second).unwrap();
    assert_eq!(registry.revoke("operator Ann").unwrap().len(), 3);
    assert_eq!((of("Ann").len(), of("Bob").len()), (0, 1));
}

#[test]
fn a_node_renews_its_own_certificate_in_time() {
    let place = Place::new();
    let registry = place.open_for(49, true, 1).unwrap();
    let before = registry.credentials().serial();
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(registry.renew_own(&[]), Ok(true));
    assert_ne!(registry.credentials().serial(), before);
    // One that has not run for longer than it is good for.
    std::thread::sleep(Duration::from_millis(2_100));
    drop(registry);
    let registry = place.open(49, true).unwrap();
    assert_eq!(registry.renew_own(&[]), Ok(false));
}

#[test]
fn keys_that_others_may_read_and_books_that_are_damaged_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    drop(place.open(49, true).unwrap());
    for name in [KEY_FILE, LEDGER_FILE, "node-key.pem"] {
        let mode = fs::metadata(place.0.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let lifetime = Duration::from_secs(60);
    let open = || Registry::open(&place.0, NodeId(49), true, lifetime, &[]).map(drop).unwrap_err();
    let key = place.0.join(KEY_FILE);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(open().contains("chmod 600"), "{}", open());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(place.0.join(LEDGER_FILE), "{").unwrap();
    assert!(open().contains("is damaged"), "{}", open());
}
