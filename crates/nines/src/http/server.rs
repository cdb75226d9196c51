//! A server of small answers and of change feeds: one request for each connection, each on a thread
//! of its own. Over TLS where the connection comes from another host and the process has a
//! certificate.
//!
//! # Guarantees
//! A bounded number of connections at a time, of bytes in a request, of time for a request and for
//! its answer. When there are too many, whoever has taken longest to say what it wants is told to
//! go: half a request holds up nobody else's. A change feed has no end: its client takes something
//! within a time. Nothing that is sent here ends the process or takes it more than that.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use actor::Encryption;
use runtime::{Asker, NodeCredentials, Secured, accept_secured, sha256_hex};

use super::feeds::Client;
use super::request::{Asked, HEAD_MAX, Parsed, Path, Refusal, bearer, changefeed, parse};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: Status,
    content_type: &'static str,
    pub(super) body: String,
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    NotFound,
    Unavailable,
    /// Neither a certificate nor a token says who asks.
    Unauthorized,
    /// It takes an account of SQL.
    NoAccount,
    /// The account may not do this, or not in this way.
    Forbidden,
    /// It cannot be had as things are.
    Conflict,
    /// It is not there any more.
    Gone,
    /// The account has as much as it may have.
    TooMany,
    /// It cannot be had now.
    Busy,
    /// It takes GET alone.
    OnlyGet,
    Refused(Refusal),
    /// The request did not come in time.
    TooSlow,
    /// Something of ours is broken.
    Internal,
}

impl Status {
    /// The request says something that is no option, or cannot be read.
    pub(super) const BAD_REQUEST: Status = Status::Refused(Refusal::Malformed);

    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::Unauthorized | Status::NoAccount => "401 Unauthorized",
            Status::Forbidden => "403 Forbidden",
            Status::Conflict => "409 Conflict",
            Status::Gone => "410 Gone",
            Status::TooMany => "429 Too Many Requests",
            Status::NotFound => "404 Not Found",
            Status::Unavailable | Status::Busy => "503 Service Unavailable",
            Status::Refused(Refusal::Malformed) => "400 Bad Request",
            Status::OnlyGet | Status::Refused(Refusal::Method) => "405 Method Not Allowed",
            Status::Refused(Refusal::TargetTooLong) => "414 URI Too Long",
            Status::Refused(Refusal::HeadTooLong) => "431 Request Header Fields Too Large",
            Status::Refused(Refusal::Body) => "413 Content Too Large",
            Status::Refused(Refusal::Version) => "505 HTTP Version Not Supported",
            Status::TooSlow => "408 Request Timeout",
            Status::Internal => "500 Internal Server Error",
        }
    }
}

impl Answer {
    pub(super) fn new(status: Status, content_type: &'static str, body: String) -> Self {
        Self { status, content_type, body }
    }

    /// Text for people.
    pub(super) fn text(status: Status, body: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", body.to_string())
    }

    fn of_status(status: Status) -> Self {
        Self::text(status, &format!("{}\n", status.line()))
    }

    pub(super) fn bytes(&self, head: bool) -> Vec<u8> {
        let allow = match self.status {
            Status::Refused(Refusal::Method) => "Allow: GET, HEAD\r\n",
            Status::OnlyGet => "Allow: GET\r\n",
            Status::Unauthorized => "WWW-Authenticate: Bearer\r\n",
            Status::NoAccount => "WWW-Authenticate: Basic realm=\"nines\", charset=\"UTF-8\"\r\n",
            Status::TooMany | Status::Busy => "Retry-After: 1\r\n",
            _ => "",
        };
        let mut bytes = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: \
             no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len()
        )
        .into_bytes();
        if !head {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

/// Says what there is.
pub(super) trait Service: Send + Sync {
    /// What is at a path.
    fn answer(&self, path: Path) -> Answer;

    /// Sends a change feed until it ends, or its client takes nothing any more.
    fn feed(
        &self,
        asked: Result<Asked, String>,
        client: &Client<'_>,
        to: &mut dyn Taker,
    ) -> io::Result<()>;
}

/// A client that takes what has no end.
pub(super) trait Taker {
    /// Writes all of it, as long as the client takes something within the time that it has.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A client without TLS, and the time that it has.
struct Plain<'s>(&'s mut TcpStream, Duration);

impl Taker for Plain<'_> {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            write(self.0, piece, Instant::now() + self.1)?;
        }
        Ok(())
    }
}

/// The same with TLS.
struct Encrypted<'s>(&'s mut Secured, Duration);

impl Taker for Encrypted<'_> {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE_BYTES) {
            self.0.set_deadline(Instant::now() + self.1);
            self.0.write_all(piece)?;
            self.0.flush()?;
        }
        Ok(())
    }
}

/// What other hosts need.
#[derive(Clone)]
pub(super) struct Guard {
    /// The certificate that they are shown; they show one of the same cluster,
    pub(super) credentials: NodeCredentials,
    /// or what is in this file.
    pub(super) token: PathBuf,
}

impl Guard {
    /// Whether somebody may have an answer.
    fn admits(&self, asker: &Asker, head: &[u8]) -> bool {
        match asker {
            Asker::Certified(..) => true,
            Asker::Anonymous => bearer(head).is_some_and(|shown| self.is_token(shown)),
            Asker::Local | Asker::Plain | Asker::Refused(_) => false,
        }
    }

    /// Whether that is what is in the file, which must be its owner's alone, and no password that
    /// can be guessed.
    fn is_token(&self, shown: &[u8]) -> bool {
        let Ok(found) = fs::metadata(&self.token) else { return false };
        let Ok(token) = fs::read(&self.token) else { return false };
        let token = token.trim_ascii();
        // Hashes of two texts tell nobody by the time of a comparison how much of them is equal.
        found.mode() & 0o077 == 0
            && token.len() >= TOKEN_MIN
            && sha256_hex(token) == sha256_hex(shown)
    }
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at a time.
    connections: usize,
    /// How long a request may take to come.
    request: Duration,
    /// How long a client may take to accept an answer.
    answer: Duration,
    /// How long a client of a change feed may take nothing.
    feed: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let time = Duration::from_secs(5);
        Self { connections: 16, request: time, answer: time, feed: Duration::from_secs(60) }
    }
}

/// Connections that are being served.
#[derive(Default)]
struct Places {
    connections: Mutex<Connections>,
    freed: Condvar,
}

#[derive(Default)]
struct Connections {
    taken: usize,
    /// Those whose requests have not come, the oldest first.
    reading: BTreeMap<u64, TcpStream>,
    last: u64,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free place and takes it; the number under which the connection reads.
    fn take(&self, most: usize, stream: &TcpStream) -> u64 {
        let mut connections = self.lock();
        while connections.taken >= most {
            if let Some((_, oldest)) = connections.reading.pop_first() {
                // It reads the end of its request. A client that has gone has no socket to close.
                let _ = oldest.shutdown(Shutdown::Read);
            }
            connections = self.freed.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
        connections.taken += 1;
        connections.last += 1;
        let number = connections.last;
        if let Ok(stream) = stream.try_clone() {
            connections.reading.insert(number, stream);
        }
        number
    }

    /// The request of a connection has come, or will not; whether it was told to go.
    fn has_read(&self, number: u64) -> bool {
        self.lock().reading.remove(&number).is_none()
    }

    fn free(&self, number: u64) {
        let mut connections = self.lock();
        connections.reading.remove(&number);
        connections.taken -= 1;
        self.freed.notify_one();
    }
}

/// What a connection that is served has of the places.
pub(super) struct Turn<'p> {
    places: &'p Places,
    number: u64,
    is_over: Cell<bool>,
}

impl Turn<'_> {
    /// The request of the connection as it is to be answered.
    fn request(&self, read: io::Result<Request>) -> io::Result<Request> {
        match (self.places.has_read(self.number), read) {
            // What came of it is half a request.
            (true, Err(_)) => Ok(Err(Status::TooSlow)),
            (_, request) => request,
        }
    }

    /// Gives the place back: what comes has no end, and a place of its own.
    pub(super) fn leave(&self) {
        if !self.is_over.replace(true) {
            self.places.free(self.number);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A path, and whether only a head is wanted; or why there is no request to answer.
type Request = Result<(Path, bool), Status>;

/// Serves connections of these listeners until the process ends.
pub(super) fn start(
    listeners: Vec<TcpListener>,
    limits: Limits,
    service: Arc<dyn Service>,
    guard: Option<Guard>,
) -> io::Result<()> {
    let places = Arc::new(Places::default());
    for listener in listeners {
        let (service, places, guard) = (service.clone(), places.clone(), guard.clone());
        let accept = move || accept(&listener, limits, &service, &places, guard.as_ref());
        thread::Builder::new().name("http".into()).spawn(accept)?;
    }
    Ok(())
}

fn accept(
    listener: &TcpListener,
    limits: Limits,
    service: &Arc<dyn Service>,
    places: &Arc<Places>,
    guard: Option<&Guard>,
) {
    loop {
        let Ok((stream, from)) = listener.accept() else {
            // The system has no descriptor left, or the client has gone again.
            thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        let number = places.take(limits.connections, &stream);
        let (service, own) = (service.clone(), places.clone());
        let guard = guard.filter(|_| !from.ip().to_canonical().is_loopback()).cloned();
        let serve = move || {
            let turn = Turn { places: &own, number, is_over: Cell::new(false) };
            let server = Server { limits, service: &*service, turn: &turn, from };
            let served = || match &guard {
                Some(guard) => server.serve_guarded(stream, guard),
                None => server.serve(stream),
            };
            // The client may have gone, and what is broken here harms this answer alone.
            let _ = catch_unwind(AssertUnwindSafe(served));
        };
        if thread::Builder::new().name("http-answer".into()).spawn(serve).is_err() {
            places.free(number);
        }
    }
}

/// What serves a connection.
struct Server<'s> {
    limits: Limits,
    service: &'s dyn Service,
    turn: &'s Turn<'s>,
    from: SocketAddr,
}

impl Server<'_> {
    /// Prepares a connection for a feed. A client that confirms nothing for so long is given up:
    /// its host may be gone, and little that is sent fits the buffers of the system for hours.
    fn set_up(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let millis = u32::try_from(self.limits.feed.as_millis()).unwrap_or(u32::MAX);
        Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let (mut bytes, until) = (Vec::new(), Instant::now() + self.limits.request);
        let request = read_into(&mut bytes, |buffer| {
            stream.set_read_timeout(Some(left(until)?))?;
            stream.read(buffer)
        });
        let request = self.turn.request(request)?;
        if let Ok((Path::Changefeed, false)) = request {
            self.set_up(&stream)?;
            let client = self.client(None);
            let mut to = Plain(&mut stream, self.limits.feed);
            self.service.feed(changefeed(&bytes), &client, &mut to)?;
        } else {
            let (answer, head) = self.answer(request);
            write(&mut stream, &answer.bytes(head), Instant::now() + self.limits.answer)?;
        }
        // Closing with unread input would reset the connection, and destroy what was just sent.
        stream.shutdown(Shutdown::Write)?;
        let until = Instant::now() + DRAIN_TIMEOUT;
        let mut rest = [0; 4 << 10];
        for _ in 0..DRAIN_READS_MAX {
            stream.set_read_timeout(Some(left(until)?))?;
            if stream.read(&mut rest)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The same for a client of another host.
    fn serve_guarded(&self, stream: TcpStream, guard: &Guard) -> io::Result<()> {
        let until = Instant::now() + self.limits.request;
        self.set_up(&stream)?;
        let (mut stream, asker) = accept_secured(&guard.credentials, stream, until)?;
        let mut bytes = Vec::new();
        let request = read_into(&mut bytes, |buffer| stream.read(buffer));
        let request = self.turn.request(request)?;
        if let Ok((Path::Changefeed, false)) = request
            && matches!(asker, Asker::Certified(..) | Asker::Anonymous)
        {
            // An account of SQL says who asks.
            let client = self.client(stream.encryption());
            let mut to = Encrypted(&mut stream, self.limits.feed);
            self.service.feed(changefeed(&bytes), &client, &mut to)?;
        } else {
            let (answer, head) = match request {
                Ok((_, head)) if !guard.admits(&asker, &bytes) => {
                    (Answer::text(Status::Unauthorized, NEEDED), head)
                }
                request => self.answer(request),
            };
            stream.set_deadline(Instant::now() + self.limits.answer);
            stream.write_all(&answer.bytes(head))?;
        }
        stream.set_deadline(Instant::now() + self.limits.answer);
        stream.finish()
    }

    /// The answer to a request, and whether only its head is wanted.
    fn answer(&self, request: Request) -> (Answer, bool) {
        match request {
            Ok((path, head)) => {
                let answer = catch_unwind(AssertUnwindSafe(|| self.service.answer(path)));
                (answer.unwrap_or_else(|_| Answer::of_status(Status::Internal)), head)
            }
            Err(status) => (Answer::of_status(status), false),
        }
    }

    /// Who asks for a change feed.
    fn client(&self, encryption: Option<Encryption>) -> Client<'_> {
        Client { from: self.from, encryption, turn: self.turn }
    }
}

/// Reads a request by reading pieces of it.
fn read_into(
    bytes: &mut Vec<u8>,
    mut piece: impl FnMut(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Request> {
    let mut buffer = [0; 2 << 10];
    loop {
        match parse(bytes) {
            Parsed::Request { path, head } => return Ok(Ok((path, head))),
            Parsed::Refused(refusal) => return Ok(Err(Status::Refused(refusal))),
            Parsed::Incomplete => assert!(bytes.len() <= HEAD_MAX, "a long head is refused"),
        }
        match piece(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if is_time_out(&error) => return Ok(Err(Status::TooSlow)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes all of it, in the time that an answer may take as a whole.
fn write(stream: &mut TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The time that is left, which is not nothing.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn is_time_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What somebody is told who has shown nothing.
const NEEDED: &str = "it takes a certificate of this cluster, or `Authorization: Bearer TOKEN`\n";
/// Shortest token.
const TOKEN_MIN: usize = 16;
/// Bytes of a change feed that are written together.
const PIECE_BYTES: usize = 16 << 10;
/// How long, and for how many reads, what a client still sends is thrown away.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_READS_MAX: usize = 64;
/// How long to wait when the system accepts nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    /// Its change feeds are as long as a client reads them.
    struct Small;

    impl Service for Small {
        fn answer(&self, path: Path) -> Answer {
            match path {
                Path::Live => Answer::text(Status::Ok, "alive\n"),
                Path::Ready => panic!("something is broken"),
                Path::Changefeed => Answer::of_status(Status::OnlyGet),
                _ => Answer::of_status(Status::NotFound),
            }
        }

        fn feed(
            &self,
            asked: Result<Asked, String>,
            client: &Client<'_>,
            to: &mut dyn Taker,
        ) -> io::Result<()> {
            client.turn.leave();
            let name = asked.unwrap().name;
            assert!(client.from.ip().is_loopback() && client.encryption.is_none());
            if name == "short" {
                return to.take(b"short\n");
            }
            loop {
                to.take(&[b'x'; 1 << 20])?;
            }
        }
    }

    fn server(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        start(vec![listener], limits, Arc::new(Small), None).unwrap();
        address
    }

    fn said(address: SocketAddr, pieces: &[&[u8]]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        for piece in pieces {
            // The server may have refused already.
            let _ = stream.write_all(piece);
        }
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn answers_are_whole_and_close_the_connection() {
        let address = server(Limits::default());
        let answer = said(address, &[b"GET /live HT", b"TP/1.1\r\nHost: a\r", b"\n\r\n"]);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("Content-Length: 6\r\n"), "{answer}");
        assert!(answer.contains("Connection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nalive\n"), "{answer}");
        let head = said(address, &[b"HEAD /live HTTP/1.0\r\n\r\n"]);
        assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn hostile_clients_are_told_no_and_others_are_served() {
        let address = server(Limits::default());
        for (bytes, status) in [
            (&[0x16, 0x03, 0x01, 0x00][..], "400 "),
            (b"DELETE / HTTP/1.1\r\n\r\n", "405 "),
            (b"GET / HTTP/1.0\r\nContent-Length: 9\r\n\r\n", "413 "),
            (b"GET / HTTP/3\r\n\r\n", "505 "),
            (b"GET /ready HTTP/1.0\r\n\r\n", "500 "),
        ] {
            let answer = said(address, &[bytes]);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
        }
        let long = vec![b'a'; 1 << 20];
        let answer = said(address, &[b"GET / HTTP/1.0\r\nX: ", &long]);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }

    #[test]
    fn half_requests_make_place_for_whole_ones() {
        let limits = Limits { connections: 4, ..Limits::default() };
        let address = server(Limits { request: Duration::from_secs(3_600), ..limits });
        let mut half: Vec<TcpStream> =
            (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &mut half {
            // The server may have told it to go already.
            let _ = stream.write_all(b"GET /live HT");
        }
        assert!(said(address, &[b"GET /live HTTP/1.0\r\n\r\n"]).contains("alive"));
        let mut told = String::new();
        half[0].read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
    }

    #[test]
    fn feeds_take_nobodys_place_and_a_client_that_takes_nothing_is_given_up() {
        let feed = Duration::from_millis(300);
        let limits = Limits { connections: 2, feed, ..Limits::default() };
        let address = server(limits);
        let mut sleepers: Vec<TcpStream> =
            (0..8).map(|_| TcpStream::connect(address).unwrap()).collect();
        for stream in &mut sleepers {
            stream.write_all(b"GET /changefeeds/f HTTP/1.0\r\n\r\n").unwrap();
        }
        assert!(said(address, &[b"GET /live HTTP/1.0\r\n\r\n"]).contains("alive"));
        assert_eq!(said(address, &[b"GET /changefeeds/short HTTP/1.0\r\n\r\n"]), "short\n");
        let only_get = said(address, &[b"HEAD /changefeeds/f HTTP/1.0\r\n\r\n"]);
        assert!(only_get.contains("405 ") && only_get.contains("Allow: GET\r\n"), "{only_get}");
        thread::sleep(feed * 3);
        for mut stream in sleepers {
            // What the system has kept comes, then the end.
            let mut rest = vec![0; 1 << 20];
            while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
        }
    }

    #[test]
    fn silent_clients_are_told_to_go_and_hold_up_nobody_for_long() {
        let limits =
            Limits { connections: 2, request: Duration::from_millis(50), ..Limits::default() };
        let address = server(limits);
        let mut silent: Vec<TcpStream> =
            (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
        silent[0].write_all(b"GET /live HT").unwrap();
        assert!(said(address, &[b"GET /live HTTP/1.0\r\n\r\n"]).contains("alive"));
        let mut told = String::new();
        silent[0].read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
    }
}
