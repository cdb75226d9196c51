//! Who may ask a node for what.
//!
//! # Guarantees
//! Every request is decided here, before anything else looks at it. What is refused is refused with
//! the way to do it.

use runtime::{Asker, NodeRole};

use super::request::{CertificateRequest, Request};

/// Whether somebody may ask for something; why not. `insecure`: the network is trusted, as the
/// configuration says.
pub(super) fn check(asker: &Asker, request: &Request, insecure: bool) -> Result<(), String> {
    match asker {
        Asker::Local => Ok(()),
        Asker::Certified(identity, _) => match identity.role {
            NodeRole::Ctl => match request {
                Request::Certificates(CertificateRequest::Ledger) => {
                    Err("the authority's key is given to management nodes only".into())
                }
                _ => Ok(()),
            },
            NodeRole::Management => Ok(()),
            NodeRole::Data | NodeRole::Sql => match request {
                Request::Configuration { .. }
                | Request::Version
                | Request::Certificates(
                    CertificateRequest::Trust | CertificateRequest::Renew { .. },
                ) => Ok(()),
                Request::Certificates(CertificateRequest::Server { .. })
                    if identity.role == NodeRole::Sql =>
                {
                    Ok(())
                }
                Request::Claim { node, role }
                    if *node == identity.node.0 && role == identity.role.name() =>
                {
                    Ok(())
                }
                _ => Err(format!("{identity} may not ask for that: {NEEDED}")),
            },
        },
        Asker::Anonymous => match request {
            // A token says who that is.
            Request::Certificates(
                CertificateRequest::Preview { .. } | CertificateRequest::Join { .. },
            ) => Ok(()),
            _ => Err(NEEDED.into()),
        },
        // What a certificate protects is not to be had without one, nor are secrets to be read on
        // the way.
        Asker::Plain if insecure && !matches!(request, Request::Certificates(_)) => Ok(()),
        Asker::Plain => Err(NEEDED.into()),
        Asker::Refused(why) => Err(format!("{why}; {NEEDED}")),
    }
}

/// What gives somebody the right to ask.
const NEEDED: &str = "it takes a certificate of an operator (`nines ctl certificates \
                      create-operator`) or of a node (`--join TOKEN`, from `nines ctl token \
                      create`), or on the host of the node its user or root";

#[cfg(test)]
mod tests {
    use model::NodeId;
    use runtime::NodeIdentity;

    use super::*;

    fn certified(role: NodeRole, node: u16) -> Asker {
        let identity = NodeIdentity { authority: "a".into(), role, node: NodeId(node) };
        Asker::Certified(identity, "1".into())
    }

    fn claim(node: u16, role: &str) -> Request {
        Request::Claim { node, role: role.into() }
    }

    #[test]
    fn everybody_may_do_what_is_theirs() {
        let end = Request::End { node: 1, restart: false, force: true };
        let trust = Request::Certificates(CertificateRequest::Trust);
        let ledger = Request::Certificates(CertificateRequest::Ledger);
        let join = || CertificateRequest::Join {
            token: ("a".into(), "b".into()),
            role: "data".into(),
            node: 1,
            request: String::new(),
            names: Vec::new(),
        };
        let server =
            CertificateRequest::Server { request: String::new(), names: vec!["db".into()] };
        let server = Request::Certificates(server);
        let may = |asker: &Asker, request: &Request| check(asker, request, false).is_ok();
        let (data, sql) = (certified(NodeRole::Data, 3), certified(NodeRole::Sql, 51));
        let (management, ctl) = (certified(NodeRole::Management, 49), certified(NodeRole::Ctl, 0));
        for asker in [&Asker::Local, &management, &ctl] {
            assert!(may(asker, &end) && may(asker, &Request::Status) && may(asker, &trust));
        }
        assert!(may(&Asker::Local, &ledger) && may(&management, &ledger) && !may(&ctl, &ledger));
        assert!(may(&data, &claim(3, "data")) && may(&sql, &claim(51, "sql")));
        assert!(!may(&data, &claim(4, "data")) && !may(&data, &claim(3, "sql")));
        assert!(!may(&sql, &claim(1, "data")), "an SQL node is no data node");
        assert!(may(&data, &trust) && may(&sql, &server) && !may(&data, &server));
        let leave = Request::Leave { restart: false };
        for asker in [&data, &sql, &Asker::Anonymous, &Asker::Plain] {
            assert!(!may(asker, &end) && !may(asker, &leave) && !may(asker, &ledger), "{asker:?}");
        }
        assert!(may(&Asker::Anonymous, &Request::Certificates(join())));
        assert!(!may(&Asker::Anonymous, &Request::Status) && !may(&Asker::Anonymous, &trust));
        let refused = Asker::Refused("you are user 7".into());
        let why = check(&refused, &Request::Status, true).unwrap_err();
        assert!(why.starts_with("you are user 7; it takes a certificate"), "{why}");
        // A network that is trusted.
        assert!(check(&Asker::Plain, &end, true).is_ok());
        for request in [trust, ledger, Request::Certificates(join())] {
            assert!(check(&Asker::Plain, &request, true).is_err(), "{request:?}");
        }
    }
}
