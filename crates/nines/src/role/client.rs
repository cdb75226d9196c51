//! How a starting node gets its configuration, its id, and with a token its first certificate from
//! the management nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use cluster_config::ClusterConfig;
use model::NodeId;
use runtime::{NodeCredentials, NodeRole};

use super::request::{
    Access, AskError, CertificateRequest, Certified, Configuration, Request, ask,
};
use super::token::Token;
use super::{is_here, local};
use crate::process::Happening;
use crate::{machine, tell};

/// The management nodes that a process is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect(Vec<(String, u16)>);

/// What a process has been given.
pub(crate) struct Given {
    pub(crate) config: ClusterConfig,
    /// Its version in the control log; 0 of a file.
    pub(crate) version: u64,
    pub(crate) node: NodeId,
    /// Its certificate, if it has one.
    pub(crate) credentials: Option<NodeCredentials>,
}

impl Connect {
    /// Reads `HOST[:PORT][,HOST[:PORT]…]`, as NDB's connection strings; `nodeid=` is not one of a
    /// place. An IPv6 address with a port is in brackets.
    pub(crate) fn parse(text: &str) -> Result<Connect, String> {
        let places = text.split([',', ';']).map(str::trim).filter(|place| !place.is_empty());
        let places: Vec<(String, u16)> = places.map(place).collect::<Result<_, String>>()?;
        if places.is_empty() {
            return Err("HOST[:PORT] of a management node is needed".into());
        }
        Ok(Connect(places))
    }

    /// Where an operator finds a management node: as given, or else the one on this host that is
    /// the operator's own. True if it was found: then it is asked as the user of this process.
    ///
    /// # Errors
    /// There are several, and none of them at the usual port.
    pub(crate) fn of_operator(given: Option<&Connect>) -> Result<(Connect, bool), String> {
        match given {
            Some(given) => Ok((given.clone(), false)),
            None => chosen(&local::operators_ports()),
        }
    }

    /// These hosts and ports.
    pub(super) fn at(places: Vec<(String, u16)>) -> Self {
        Self(places)
    }

    /// What this host is called, and its address on the way to a management node.
    pub(super) fn own_names(&self) -> Vec<String> {
        let address = self.own_address().map(|address| address.to_string());
        std::iter::once(machine::host_name()).chain(address).collect()
    }

    /// The address of this host from which a management node is reached: nothing is sent for that.
    pub(super) fn own_address(&self) -> Option<IpAddr> {
        self.0.iter().find_map(|(host, port)| {
            let address = (host.as_str(), *port).to_socket_addrs().ok()?.next()?;
            let any: IpAddr = match address {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.connect(address).ok()?;
            Some(socket.local_addr().ok()?.ip())
        })
    }

    /// Asks one management node after the other until one answers.
    pub(crate) fn ask<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
        access: &Access,
    ) -> Result<T, AskError> {
        self.ask_on(request, access, |error| matches!(error, AskError::Unreachable(_)))
    }

    /// Asks one management node after the other until one says yes: each knows tokens of its own.
    pub(super) fn ask_all<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
        access: &Access,
    ) -> Result<T, AskError> {
        self.ask_on(request, access, |_| true)
    }

    /// Asks one management node after the other, as long as this error is no reason to stop.
    fn ask_on<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
        access: &Access,
        goes_on: impl Fn(&AskError) -> bool,
    ) -> Result<T, AskError> {
        let mut last = AskError::Unreachable("no management node is known".into());
        for (host, port) in &self.0 {
            match ask(host, *port, request, access) {
                Err(error) if goes_on(&error) => {
                    // What one has said tells more than that another one is not there.
                    let says_less = matches!(error, AskError::Unreachable(_));
                    if !(says_less && matches!(last, AskError::Refused(_))) {
                        last = error;
                    }
                }
                answered => return answered,
            }
        }
        Err(last)
    }

    /// Gets the configuration and an id of this role, as soon as a management node answers; nothing
    /// if the process is told to end before.
    pub(crate) fn begin(
        &self,
        role: &'static str,
        wanted: Option<NodeId>,
        credentials: Option<NodeCredentials>,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Given>, String> {
        let access = Access::to_management(credentials.clone());
        let begun = self.until_answered(happenings, REFUSALS_MAX, move |connect: &Connect| {
            connect.try_begin(role, wanted, &access)
        });
        Ok(begun?.map(|(config, version, node)| Given { config, version, node, credentials }))
    }

    /// Gets a certificate for a key by a token, as soon as a management node answers; of which
    /// node. Nothing if the process is told to end before.
    pub(super) fn join(
        &self,
        token: &Token,
        wanted: Option<NodeId>,
        key: &str,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<(NodeId, Certified)>, String> {
        let (token, key) = (token.clone(), key.to_owned());
        self.until_answered(happenings, 0, move |connect: &Connect| {
            connect.try_join(&token, wanted, &key)
        })
    }

    /// Tries until it succeeds, or is refused for good; nothing if the process is told to end.
    fn until_answered<T: Send + 'static>(
        &self,
        happenings: &Receiver<Happening>,
        refusals_max: u32,
        attempt: impl Fn(&Connect) -> Result<T, AskError> + Clone + Send + 'static,
    ) -> Result<Option<T>, String> {
        let mut told = None;
        let mut refusals = 0;
        loop {
            let Some(answer) = self.try_unless_ended(attempt.clone(), happenings)? else {
                tell("ends: it was told to while it waited for a management node");
                return Ok(None);
            };
            let why = match answer {
                Ok(given) => return Ok(Some(given)),
                Err(AskError::Refused(why)) if refusals >= refusals_max => return Err(why),
                Err(AskError::Refused(why)) => {
                    // The last process with that id may not have been missed yet.
                    refusals += 1;
                    why
                }
                Err(AskError::Unreachable(why)) => why,
            };
            if told.as_ref() != Some(&why) {
                tell(&format!("waits for a management node: {why}"));
                told = Some(why);
            }
            if is_told_to_end(happenings.recv_timeout(PAUSE)) {
                tell("ends: it was told to while it waited for a management node");
                return Ok(None);
            }
        }
    }

    /// Tries once, on a thread of its own: a host that does not answer may take its time. Nothing
    /// if the process is told to end meanwhile.
    fn try_unless_ended<T: Send + 'static>(
        &self,
        attempt: impl FnOnce(&Connect) -> Result<T, AskError> + Send + 'static,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Result<T, AskError>>, String> {
        let (send, answers) = sync_channel(1);
        let connect = self.clone();
        let ask = move || {
            // Whoever asked may be on the way out.
            let _ = send.send(attempt(&connect));
        };
        let thread = thread::Builder::new().name("begin".into()).spawn(ask);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        loop {
            match answers.recv_timeout(LOOK) {
                Ok(answer) => return Ok(Some(answer)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the thread that asks management nodes has ended".into());
                }
            }
            if happenings.try_recv().is_ok_and(|happening| happening.ends()) {
                return Ok(None);
            }
        }
    }

    fn try_begin(
        &self,
        role: &str,
        wanted: Option<NodeId>,
        access: &Access,
    ) -> Result<(ClusterConfig, u64, NodeId), AskError> {
        let told: Configuration =
            self.ask(&Request::Configuration { role: role.to_string() }, access)?;
        let version = told.version;
        let (config, free) = understood(told)?;
        let node = choose(&config, role, wanted, &free)?;
        let _: bool = self.ask(&Request::Claim { node: node.0, role: role.to_string() }, access)?;
        Ok((config, version, node))
    }

    fn try_join(
        &self,
        token: &Token,
        wanted: Option<NodeId>,
        key: &str,
    ) -> Result<(NodeId, Certified), AskError> {
        let access = Access::of_token(token.authority.clone());
        let role = token.role.name().to_owned();
        let (proof, request) = (token.proof(), runtime::signing_request(key));
        let node = match (token.role, wanted) {
            (NodeRole::Ctl, _) => NodeId(0),
            (_, Some(node)) => node,
            (_, None) => {
                let (token, role) = (proof.clone(), role.clone());
                let preview = CertificateRequest::Preview { token, role: role.clone() };
                let told = self.ask_all(&Request::Certificates(preview), &access)?;
                let (config, free) = understood(told)?;
                choose(&config, &role, None, &free)?
            }
        };
        let join = CertificateRequest::Join {
            token: proof,
            role,
            node: node.0,
            request: request.map_err(AskError::Refused)?,
            names: self.own_names(),
        };
        let certified = self.ask_all(&Request::Certificates(join), &access)?;
        Ok((node, certified))
    }
}

/// The management node of this host to ask, if these ports have one.
fn chosen(ports: &BTreeSet<u16>) -> Result<(Connect, bool), String> {
    let usual = ports.get(&MANAGEMENT_PORT);
    let only = ports.first().filter(|_| ports.len() == 1);
    let at = |port: u16| Connect(vec![("localhost".to_owned(), port)]);
    match (usual.or(only), ports.is_empty()) {
        (Some(port), _) => Ok((at(*port), true)),
        // Whoever is not there, or another user's, says so itself.
        (None, true) => Ok((at(MANAGEMENT_PORT), false)),
        (None, false) => {
            let all: Vec<String> =
                ports.iter().map(|port| format!("-c localhost:{port}")).collect();
            Err(format!("several clusters run on this host; choose one: {}", all.join(", ")))
        }
    }
}

/// A configuration as it was told, and the ids that are free.
fn understood(told: Configuration) -> Result<(ClusterConfig, Vec<u16>), AskError> {
    let parsed = ClusterConfig::parse(told.text.as_bytes());
    let config = parsed.map_err(|problems| {
        let first = problems.first().map(|problem| problem.at("configuration").to_string());
        AskError::Refused(format!(
            "this version does not understand the configuration: {}",
            first.unwrap_or_default()
        ))
    })?;
    Ok((config.config, told.free))
}

/// The id that a process is to have.
fn choose(
    config: &ClusterConfig,
    role: &str,
    wanted: Option<NodeId>,
    free: &[u16],
) -> Result<NodeId, AskError> {
    let here = |id: &NodeId| config.node(*id).is_some_and(|node| is_here(node.host()));
    let of_role = || free.iter().copied().map(NodeId).find(here);
    wanted.or_else(of_role).ok_or_else(|| {
        AskError::Refused(format!("no {role} node of the configuration is free for this host"))
    })
}

fn is_told_to_end(happening: Result<Happening, RecvTimeoutError>) -> bool {
    happening.is_ok_and(|happening| happening.ends())
}

fn place(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("`{text}` is not HOST[:PORT]");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, port.strip_prefix(':'))
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map(str::parse).transpose().map_err(|_| wrong())?;
    let known = !host.is_empty() && !host.contains(['=', ' ']);
    known.then(|| (host.to_string(), port.unwrap_or(MANAGEMENT_PORT))).ok_or_else(wrong)
}

/// Where management nodes listen unless they are told otherwise.
const MANAGEMENT_PORT: u16 = 1_186;
const PAUSE: Duration = Duration::from_millis(300);
/// How long a word that the process is to end waits at most.
const LOOK: Duration = Duration::from_millis(20);
/// How often a refusal may come before it is final.
const REFUSALS_MAX: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_finds_the_only_cluster_or_the_one_at_the_usual_port() {
        let at = |ports: &[u16]| chosen(&ports.iter().copied().collect());
        let found = |port, found| Ok((Connect(vec![("localhost".into(), port)]), found));
        assert_eq!(at(&[]), found(1186, false));
        assert_eq!(at(&[3306]), found(3306, true));
        assert_eq!(at(&[1186]), found(1186, true));
        assert_eq!(at(&[1186, 3306, 40_000]), found(1186, true));
        let several = at(&[40_000, 3306]).unwrap_err();
        assert!(several.ends_with("-c localhost:3306, -c localhost:40000"), "{several}");
        let given = Connect::parse("a:1").unwrap();
        assert_eq!(Connect::of_operator(Some(&given)), Ok((given, false)));
    }

    #[test]
    fn places_are_hosts_and_ports() {
        let parsed = |text: &str| Connect::parse(text).map(|connect| connect.0);
        let place = |host: &str, port| (host.to_string(), port);
        assert_eq!(parsed("a"), Ok(vec![place("a", 1186)]));
        assert_eq!(
            parsed("a:1, [::1]:2;::1"),
            Ok(vec![place("a", 1), place("::1", 2), place("::1", 1186)])
        );
        for wrong in ["", ",", "a:b", "nodeid=3", "[::1", ":5"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
