//! What programs ask a management or data node, as JSON over the port of its links.
//!
//! # Guarantees
//! An answer is `{"Ok": …}` or `{"Err": "why"}`. A request that is not known is refused by name.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use runtime::Rotated;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A management node: the configuration, and the ids of a role that are free.
    Configuration {
        /// `data` or `sql`, or empty to have a look only.
        role: String,
    },
    /// A management node: keeps an id for the asker, who is about to start as that node.
    Claim {
        /// The id.
        node: u16,
        /// What the asker is.
        role: String,
    },
    /// A management node: how the cluster is.
    Status,
    /// A management node: what has happened.
    Events {
        /// Only what has a larger number; none for the newest.
        after: Option<u64>,
        /// Most lines; the newest ones with `after` left out, else the oldest.
        most: usize,
    },
    /// A management node: which losses the cluster would survive now.
    Survivability,
    /// A management node: what goes on in the workers of the data nodes, or of all nodes.
    Look {
        /// At what.
        at: Subject,
    },
    /// A management node: the cluster is to restart from this epoch, without the durable epochs
    /// after it that its disks have lost.
    AcceptLoss {
        /// The epoch, as the refusal to restart names it.
        epoch: u64,
    },
    /// A management node: the versions of the program by node.
    Versions,
    /// A node: the version of its program.
    Version,
    /// A management node: the end of a node in good order, or its restart; the node is asked in
    /// turn.
    End {
        /// Which.
        node: u16,
        /// It is to start again.
        restart: bool,
        /// Also when the cluster cannot do without it.
        #[serde(default)]
        force: bool,
    },
    /// A management node: the data keys of a node are to be new; the node is asked in turn.
    RotateKeys {
        /// Which.
        node: u16,
    },
    /// A node: reads its master key again, has it wrap its data keys, and makes a new one.
    RotateOwnKeys,
    /// A node: to leave in good order and end, or start again.
    Leave {
        /// It is to start again.
        restart: bool,
    },
}

/// What [`Request::Look`] looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Subject {
    Memory,
    Transactions,
    Locks,
    /// Copies of rows to nodes that return.
    Copies,
    /// What the workers of all nodes have counted.
    Figures,
}

/// The answer to [`Request::Look`]: what the workers of the data nodes told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sight {
    pub(crate) workers: Vec<WorkerSight>,
    /// Nodes of which some worker did not answer in time.
    pub(crate) silent: Vec<u16>,
}

/// What a worker told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerSight {
    pub(crate) node: u16,
    pub(crate) worker: u8,
    /// As `wire::Inspection` describes them: texts and whole numbers.
    pub(crate) rows: Vec<Vec<serde_json::Value>>,
}

/// The answer to [`Request::RotateKeys`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewKeys {
    /// The number of the data key that new files get.
    pub(crate) data_key: u32,
    /// The name of the master key that wraps the data keys.
    pub(crate) master_key: String,
}

impl NewKeys {
    pub(crate) fn of(rotated: Rotated) -> Self {
        Self { data_key: rotated.data_key, master_key: rotated.master_key }
    }
}

/// The version of the program that a node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeVersion {
    pub(crate) node: u16,
    pub(crate) role: String,
    /// None where the node does not tell it.
    pub(crate) version: Option<String>,
}

/// The answer to [`Request::Configuration`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Configuration {
    /// As canonical text.
    pub(crate) text: String,
    /// Tells configurations apart.
    #[serde(default)]
    pub(crate) fingerprint: String,
    /// Ids of the role that nobody has.
    pub(crate) free: Vec<u16>,
}

/// Why there is no answer to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// Nobody answers there; why.
    Unreachable(String),
    /// It says no.
    Refused(String),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskError::Unreachable(why) | AskError::Refused(why) => f.write_str(why),
        }
    }
}

/// Asks the node at an address.
pub(crate) fn ask<T: DeserializeOwned>(
    (host, port): (&str, u16),
    request: &Request,
) -> Result<T, AskError> {
    let unreachable = |error: &dyn fmt::Display| {
        AskError::Unreachable(format!("nobody answers at {host}:{port}: {error}"))
    };
    let found = (host, port).to_socket_addrs().map_err(|error| unreachable(&error))?;
    let mut last = None;
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                let answer = exchange(stream, request).map_err(|error| unreachable(&error))?;
                return read(&answer).unwrap_or_else(|why| {
                    Err(AskError::Unreachable(format!("{host}:{port} is not a node: {why}")))
                });
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| unreachable(&"no address"), |error| unreachable(&error)))
}

fn exchange(mut stream: TcpStream, request: &Request) -> std::io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let body = serde_json::to_vec(request).expect("requests are plain");
    let bytes = runtime::service_request(&body).expect("requests are short");
    stream.write_all(&bytes)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<Result<T, AskError>, serde_json::Error> {
    let answer: Result<T, String> = serde_json::from_slice(answer)?;
    Ok(answer.map_err(AskError::Refused))
}

/// Answers a request: `decide` says what, or why not.
pub(crate) fn answer(
    body: &[u8],
    out: &mut dyn Write,
    decide: impl FnOnce(Request) -> Result<serde_json::Value, String>,
) {
    let answer = match serde_json::from_slice(body) {
        Ok(request) => decide(request),
        Err(error) => Err(format!("the request is not known here: {error}")),
    };
    let text = serde_json::to_vec(&answer).expect("answers are plain");
    // The asker may have gone.
    let _ = out.write_all(&text);
}

/// A value as an answer.
pub(crate) fn value(of: &impl Serialize) -> Result<serde_json::Value, String> {
    serde_json::to_value(of).map_err(|error| error.to_string())
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_yes_or_no() {
        let asked =
            serde_json::to_vec(&Request::End { node: 3, restart: true, force: false }).unwrap();
        let mut yes = Vec::new();
        answer(&asked, &mut yes, |request| {
            assert_eq!(request, Request::End { node: 3, restart: true, force: false });
            value(&7)
        });
        assert_eq!(read::<u32>(&yes).unwrap(), Ok(7));
        let mut no = Vec::new();
        answer(b"{\"Dance\":{}}", &mut no, |_| panic!("there is no such request"));
        let refusal = read::<u32>(&no).unwrap().unwrap_err().to_string();
        assert!(refusal.contains("Dance"), "{refusal}");
        assert!(read::<u32>(b"HTTP/1.1 400").is_err());
    }
}
