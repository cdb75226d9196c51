//! The first words on a connection between processes, and the answer.
//!
//! # Guarantees
//! They are understood by every version: their form does not change, fields are only added at the
//! end, and whoever does not know a field skips it. Nothing that can come in makes the reader panic
//! or keep more than [`BODY_MAX`] bytes.

use std::fmt;
use std::io::{self, Read};

use model::{Incarnation, NodeId};

use crate::cluster::Role;

/// A process as it presents itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) node: NodeId,
    pub(super) role: Role,
    pub(super) incarnation: Incarnation,
    pub(super) workers: u8,
}

/// Who connects, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) identity: Identity,
    /// Versions of the messages that it can speak, oldest and newest.
    pub(super) protocol: (u16, u16),
    /// Names the attempt to make a link, whose connections come one by one. Zero only asks whether
    /// somebody is there.
    pub(super) attempt: u64,
    /// Which of the link's connections it is to be.
    pub(super) socket: u8,
    pub(super) cluster: String,
    /// The version of the program, for people.
    pub(super) release: String,
    /// It is to carry a lane of a link that stands; none for a new link.
    pub(super) renews: Option<Renewal>,
}

/// Which link, and how far its lane has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    pub(super) link: LinkName,
    /// Up to which position the peer's stream has arrived.
    pub(super) received: u64,
}

/// A link as both ends know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkName {
    /// Who has begun it, in which of its attempts.
    pub(super) begun_by: NodeId,
    pub(super) attempt: u64,
}

/// The answer to a greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) identity: Identity,
    pub(super) verdict: Verdict,
    /// The version of the messages on this link.
    pub(super) protocol: u16,
    /// Why, for people, unless it is welcome.
    pub(super) why: String,
    /// Up to which position the stream of the lane that the connection is to carry has arrived.
    pub(super) received: u64,
    /// The memory that came with the greeting is used: what follows goes through it.
    pub(super) shared: bool,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is a connection of the link.
    Welcome,
    /// Not now: the last link is not cleared away, or another attempt is under way.
    Busy,
    /// Never, as things are.
    Refused,
    /// The link that the connection was to be part of is no more.
    Gone,
}

/// What cannot be a greeting or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unintelligible;

impl fmt::Display for Unintelligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it does not speak this protocol")
    }
}

/// What follows a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A [`Greeting`] or a [`Reply`].
    Link,
    /// A request to the process's service.
    Service,
    /// TLS in which a request to the process's service is to follow.
    SecureService,
}

/// Reads a header: what follows, and how many bytes of it.
pub(super) fn header(bytes: [u8; HEADER]) -> Result<(Kind, usize), Unintelligible> {
    let kind = match bytes[MAGIC.len()] {
        LINK => Kind::Link,
        SERVICE => Kind::Service,
        SECURE_SERVICE => Kind::SecureService,
        _ => return Err(Unintelligible),
    };
    let len = usize::from(u16::from_le_bytes([bytes[HEADER - 2], bytes[HEADER - 1]]));
    let known = bytes[..MAGIC.len()] == MAGIC && len <= BODY_MAX;
    known.then_some((kind, len)).ok_or(Unintelligible)
}

/// A body with its header.
fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).expect("bodies are bounded by their fields");
    let mut bytes = MAGIC.to_vec();
    bytes.push(kind);
    bytes.extend(len.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// A request to a process's service as it is sent.
pub fn service_request(body: &[u8]) -> Option<Vec<u8>> {
    (body.len() <= BODY_MAX).then(|| framed(SERVICE, body))
}

/// What is sent before TLS in which a request is to follow.
pub fn secure_service() -> Vec<u8> {
    framed(SECURE_SERVICE, &[])
}

/// Reads a request as [`service_request`] has made it: its body.
///
/// # Errors
/// When it ends before, or is no request.
pub fn read_request(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0; HEADER];
    input.read_exact(&mut head)?;
    let Ok((Kind::Service, len)) = header(head) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut body = vec![0; len];
    input.read_exact(&mut body)?;
    Ok(body)
}

impl Identity {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.node.0.to_le_bytes());
        out.push(match self.role {
            Role::Data => 1,
            Role::Management => 2,
            Role::Client => 3,
        });
        out.push(self.workers);
        out.extend(self.incarnation.0.to_le_bytes());
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, Unintelligible> {
        let node = NodeId(input.u16()?);
        let role = match input.u8()? {
            1 => Role::Data,
            2 => Role::Management,
            3 => Role::Client,
            _ => return Err(Unintelligible),
        };
        let workers = input.u8()?;
        if workers == 0 || workers > WORKERS_MAX {
            return Err(Unintelligible);
        }
        Ok(Self { node, role, workers, incarnation: Incarnation(input.u64()?) })
    }
}

impl Greeting {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.identity.encode(&mut body);
        body.extend(self.protocol.0.to_le_bytes());
        body.extend(self.protocol.1.to_le_bytes());
        body.extend(self.attempt.to_le_bytes());
        body.push(self.socket);
        text(&mut body, &self.cluster);
        text(&mut body, &self.release);
        match self.renews {
            None => body.push(0),
            Some(Renewal { link: LinkName { begun_by, attempt }, received }) => {
                body.push(1);
                body.extend(begun_by.0.to_le_bytes());
                body.extend(attempt.to_le_bytes());
                body.extend(received.to_le_bytes());
            }
        }
        framed(LINK, &body)
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Unintelligible> {
        let mut input = Input(body);
        Ok(Self {
            identity: Identity::decode(&mut input)?,
            protocol: (input.u16()?, input.u16()?),
            attempt: input.u64()?,
            socket: input.u8()?,
            cluster: input.text()?,
            release: input.text()?,
            renews: match input.0 {
                [] | [0, ..] => None,
                _ => {
                    input.u8()?;
                    let (begun_by, attempt) = (NodeId(input.u16()?), input.u64()?);
                    let link = LinkName { begun_by, attempt };
                    Some(Renewal { link, received: input.u64()? })
                }
            },
        })
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        self.identity.encode(&mut body);
        body.push(match self.verdict {
            Verdict::Welcome => 1,
            Verdict::Busy => 2,
            Verdict::Refused => 3,
            Verdict::Gone => 4,
        });
        body.extend(self.protocol.to_le_bytes());
        text(&mut body, &self.why);
        body.extend(self.received.to_le_bytes());
        body.push(u8::from(self.shared));
        framed(LINK, &body)
    }

    pub(super) fn decode(body: &[u8]) -> Result<Self, Unintelligible> {
        let mut input = Input(body);
        Ok(Self {
            identity: Identity::decode(&mut input)?,
            verdict: match input.u8()? {
                1 => Verdict::Welcome,
                2 => Verdict::Busy,
                3 => Verdict::Refused,
                4 => Verdict::Gone,
                _ => return Err(Unintelligible),
            },
            protocol: input.u16()?,
            why: input.text()?,
            received: if input.0.is_empty() { 0 } else { input.u64()? },
            shared: matches!(input.0, [1, ..]),
        })
    }
}

/// A text of at most 255 bytes; a longer one is cut.
fn text(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(usize::from(u8::MAX))];
    out.push(text.len() as u8);
    out.extend(text.as_bytes());
}

/// What is left to read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unintelligible> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Unintelligible)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8, Unintelligible> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    fn u16(&mut self) -> Result<u16, Unintelligible> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Unintelligible> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<String, Unintelligible> {
        let len = usize::from(self.u8()?);
        let (text, rest) = self.0.split_at_checked(len).ok_or(Unintelligible)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Unintelligible)
    }
}

const MAGIC: [u8; 5] = *b"nines";
const LINK: u8 = b'L';
const SERVICE: u8 = b'S';
const SECURE_SERVICE: u8 = b'T';
/// Bytes of a header: the magic, what it is, how long.
pub(super) const HEADER: usize = 8;
/// Longest body.
pub(super) const BODY_MAX: usize = 4_096;
/// Most workers of a process.
const WORKERS_MAX: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        let (node, incarnation) = (NodeId(3), Incarnation(77));
        Identity { node, role: Role::Management, incarnation, workers: 2 }
    }

    fn greeting() -> Greeting {
        Greeting {
            identity: identity(),
            protocol: (1, 4),
            attempt: 9,
            socket: 2,
            cluster: "main".into(),
            release: "0.1.0".into(),
            renews: None,
        }
    }

    fn renewal() -> Greeting {
        let link = LinkName { begun_by: NodeId(7), attempt: 1 << 40 };
        Greeting { renews: Some(Renewal { link, received: u64::MAX - 1 }), ..greeting() }
    }

    fn body(bytes: &[u8]) -> &[u8] {
        let (kind, len) = header(bytes[..HEADER].try_into().unwrap()).unwrap();
        assert_eq!((kind, len), (Kind::Link, bytes.len() - HEADER));
        &bytes[HEADER..]
    }

    #[test]
    fn what_is_said_is_understood_also_with_more_at_its_end() {
        let mut bytes = greeting().encode();
        assert_eq!(Greeting::decode(body(&bytes)), Ok(greeting()));
        bytes.extend([1, 2, 3]);
        assert_eq!(Greeting::decode(&bytes[HEADER..]), Ok(greeting()));
        let mut bytes = renewal().encode();
        assert_eq!(Greeting::decode(body(&bytes)), Ok(renewal()));
        bytes.extend([1, 2, 3]);
        assert_eq!(Greeting::decode(&bytes[HEADER..]), Ok(renewal()));
        for verdict in [Verdict::Welcome, Verdict::Busy, Verdict::Refused, Verdict::Gone] {
            let (identity, why) = (identity(), "so it is".into());
            let reply =
                Reply { identity, verdict, protocol: 3, why, received: 1 << 50, shared: true };
            let bytes = reply.encode();
            assert_eq!(Reply::decode(body(&bytes)), Ok(reply.clone()));
            // Who knows nothing of memory ends here.
            let short = Reply { shared: false, ..reply };
            assert_eq!(Reply::decode(&bytes[HEADER..bytes.len() - 1]), Ok(short));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let bytes = renewal().encode();
        // Who knows nothing of links that are renewed ends here.
        let short = greeting().encode().len() - HEADER - 1;
        for len in (0..bytes.len() - HEADER).filter(|len| *len != short) {
            assert_eq!(Greeting::decode(&bytes[HEADER..HEADER + len]), Err(Unintelligible));
        }
        assert_eq!(Greeting::decode(&bytes[HEADER..HEADER + short]), Ok(greeting()));
        let mut wrong = bytes.clone();
        wrong[HEADER + 2] = 9;
        assert_eq!(Greeting::decode(&wrong[HEADER..]), Err(Unintelligible), "no such role");
        wrong = bytes.clone();
        wrong[HEADER + 3] = 0;
        assert_eq!(Greeting::decode(&wrong[HEADER..]), Err(Unintelligible), "no workers");
        assert_eq!(header(*b"GET / HT"), Err(Unintelligible));
        assert_eq!(header(*b"ninesL\xff\xff"), Err(Unintelligible), "too long");
        assert_eq!(header(*b"ninesX\x01\x00"), Err(Unintelligible));
        assert_eq!(header(*b"ninesS\x01\x00"), Ok((Kind::Service, 1)));
        assert_eq!(secure_service(), b"ninesT\x00\x00");
        assert_eq!(header(*b"ninesT\x00\x00"), Ok((Kind::SecureService, 0)));
        let request = service_request(b"body").unwrap();
        assert_eq!(read_request(&mut &request[..]).unwrap(), b"body");
        assert!(read_request(&mut &request[..request.len() - 1]).is_err());
        assert!(read_request(&mut &bytes[..]).is_err(), "no request");
    }

    #[test]
    fn long_texts_are_cut() {
        let cluster = "ä".repeat(300);
        let greeting = Greeting { cluster, ..greeting() };
        let read = Greeting::decode(body(&greeting.encode())).unwrap();
        assert_eq!(read.cluster, "ä".repeat(127));
    }
}
