//! How a starting node gets its configuration and its id from the management nodes.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use cluster_config::ClusterConfig;
use model::NodeId;

use super::is_here;
use super::request::{AskError, Configuration, Request, ask};
use crate::process::Happening;
use crate::tell;

/// The management nodes that a process is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect(Vec<(String, u16)>);

/// What a process has been given.
pub(crate) struct Given {
    pub(crate) config: ClusterConfig,
    pub(crate) node: NodeId,
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

    /// Asks one management node after the other until one answers.
    pub(crate) fn ask<T: serde::de::DeserializeOwned>(
        &self,
        request: &Request,
    ) -> Result<T, AskError> {
        let mut last = AskError::Unreachable("no management node is known".into());
        for (host, port) in &self.0 {
            match ask((host, *port), request) {
                Err(AskError::Unreachable(why)) => last = AskError::Unreachable(why),
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
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Given>, String> {
        let mut told = None;
        let mut refusals = 0;
        loop {
            let Some(answer) = self.ask_unless_ended(role, wanted, happenings)? else {
                tell("ends: it was told to while it waited for a management node");
                return Ok(None);
            };
            let why = match answer {
                Ok(given) => return Ok(Some(given)),
                Err(AskError::Refused(why)) if refusals >= REFUSALS_MAX => return Err(why),
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
    fn ask_unless_ended(
        &self,
        role: &'static str,
        wanted: Option<NodeId>,
        happenings: &Receiver<Happening>,
    ) -> Result<Option<Result<Given, AskError>>, String> {
        let (send, answers) = sync_channel(1);
        let connect = self.clone();
        let ask = move || {
            // Whoever asked may be on the way out.
            let _ = send.send(connect.try_begin(role, wanted));
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

    fn try_begin(&self, role: &str, wanted: Option<NodeId>) -> Result<Given, AskError> {
        let Configuration { text, free, .. } =
            self.ask(&Request::Configuration { role: role.to_string() })?;
        let parsed = ClusterConfig::parse(text.as_bytes());
        let config = parsed.map_err(|problems| {
            let first = problems.first().map(|problem| problem.at("configuration").to_string());
            AskError::Refused(format!(
                "this version does not understand the configuration: {}",
                first.unwrap_or_default()
            ))
        })?;
        let config = config.config;
        let here = |id: &NodeId| config.node(*id).is_some_and(|node| is_here(node.host()));
        let free = free.into_iter().map(NodeId);
        let node = match wanted {
            Some(node) => node,
            None => free.clone().find(here).ok_or_else(|| {
                AskError::Refused(format!(
                    "no {role} node of the configuration is free for this host"
                ))
            })?,
        };
        let _: bool = self.ask(&Request::Claim { node: node.0, role: role.to_string() })?;
        Ok(Given { config, node })
    }
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
