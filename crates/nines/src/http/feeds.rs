//! Change feeds over HTTP: what STREAM CHANGEFEED says, as JSON lines or as server-sent events.
//!
//! # Owns
//! The connection to the process's own SQL node that stands behind each request, and how its rows
//! and its end are written.
//! # Guarantees
//! The SQL node sees the client as it came: its address, its account and password, and what
//! encrypts the connection. So whoever is refused over SQL is refused here, by the same checks.
//!
//! A client that is slow is waited for with little in memory, as the SQL node waits too. One that
//! takes nothing for long is given up; it goes on from the position that it has read last.
//! # Not here
//! Requests (`request`), connections and their limits (`server`), changes (`sql`).

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use actor::{Encryption, Transport};
use mysql_client::{Login, QueryError, Session, TextRow};
use runtime::{Observer, Role};
use serde_json::json;

use super::request::{Asked, Form};
use super::server::{Answer, Status, Taker, Turn};
use super::{Endpoint, PATIENCE, View};
use crate::{replication, transfer};

/// Feeds that a process sends at a time.
pub(super) const FEEDS_MAX: usize = 32;
/// Readers that log in at a time.
const LOGINS_MAX: usize = 16;
/// What is written at a time, about: a row is written whole.
const PIECE_BYTES: usize = 16 << 10;
/// Too many connections.
const TOO_MANY: u16 = 1040;
/// The connection to the SQL node has ended.
const LOST: u16 = 2013;
/// How the value of a feed begins whose format is JSON. A line of CSV with a quote in it begins
/// with one.
const ENVELOPE: &str = "{\"before\":";

/// Who asks.
pub(super) struct Client<'c> {
    /// Where the connection comes from.
    pub(super) from: SocketAddr,
    /// What encrypts it.
    pub(super) encryption: Option<Encryption>,
    /// The place that the connection has among those of short requests.
    pub(super) turn: &'c Turn<'c>,
}

impl Client<'_> {
    fn transport(&self) -> Transport {
        let ip = self.from.ip().to_canonical();
        let (port, loopback) = (self.from.port(), ip.is_loopback());
        Transport::Tcp { address: ip.to_string(), port, loopback }
    }
}

/// One of the feeds that may be sent at a time.
struct Place<'p>(&'p AtomicUsize);

impl<'p> Place<'p> {
    fn take(taken: &'p AtomicUsize, most: usize) -> Option<Self> {
        let more = |count| (count < most).then_some(count + 1);
        taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(taken))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a feed is not sent, or not sent on: a number of SQL's, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refused(u16, String);

impl From<QueryError> for Refused {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Refused(code, text) => {
                let marked = text.strip_prefix('#').and_then(|text| text.get(5..));
                Self(code, marked.unwrap_or(&text).to_owned())
            }
            QueryError::Lost(_) => {
                Self(LOST, "the SQL node has ended the connection: connect again".to_owned())
            }
        }
    }
}

impl Refused {
    fn status(&self) -> Status {
        match self.0 {
            // Access denied.
            1045 => Status::NoAccount,
            // A host that may not connect; an account that is locked, or blocked for a while; a
            // password that has expired; a privilege that is missing; TLS that is missing.
            1130 | 3118 | 3955 | 1862 | 1820 | 1044 | 1142 | 1227 | 3159 => Status::Forbidden,
            // There is no such feed.
            1305 => Status::NotFound,
            // The feed breaks off: what comes next is not kept any more.
            1236 => Status::Gone,
            // What an account may have at a time, or in an hour.
            1203 | 1226 => Status::TooMany,
            // It is no feed for readers, or paused, or its position is not reached yet.
            1105 => Status::Conflict,
            _ => Status::Busy,
        }
    }

    fn object(&self) -> serde_json::Value {
        json!({ "code": self.0, "message": self.1 })
    }

    fn answer(&self, status: Status) -> Answer {
        let body = json!({ "error": self.object() });
        Answer::new(status, "application/json", format!("{body}\n"))
    }
}

impl Endpoint {
    /// Sends a feed until it ends, or its client has gone.
    ///
    /// # Errors
    /// When the client takes nothing any more.
    pub(super) fn send_feed(
        &self,
        asked: Result<Asked, String>,
        client: &Client<'_>,
        to: &mut dyn Taker,
    ) -> io::Result<()> {
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return send(to, &Refused(0, why).answer(Status::BAD_REQUEST)),
        };
        if !self.0.nodes.iter().any(|(_, role)| *role == Role::Client) {
            let why = "this is no SQL node: change feeds are at the HTTP port of an SQL node";
            return send(to, &Refused(0, why.to_owned()).answer(Status::NotFound));
        }
        // A wrong password takes seconds: it is in the way of other logins, and of no feed.
        let Some(login) = Place::take(&self.0.logins, LOGINS_MAX) else {
            let why =
                format!("{LOGINS_MAX} readers of change feeds log in: come again in a moment");
            return send(to, &Refused(TOO_MANY, why).answer(Status::Busy));
        };
        client.turn.leave();
        let mut sender = Sender::new(&asked, to);
        match self.stream(&asked, client, login, &mut sender) {
            // The client has gone, and there is nobody to tell.
            Err(_) if sender.lost.is_some() => Err(sender.lost.take().expect("just seen")),
            Err(refused) => sender.end(&refused),
            Ok(()) => sender.end(&Refused(LOST, "the feed has ended".to_owned())),
        }
    }

    fn stream(
        &self,
        asked: &Asked,
        client: &Client<'_>,
        logs_in: Place<'_>,
        sender: &mut Sender<'_>,
    ) -> Result<(), Refused> {
        let Some((user, password)) = &asked.account else {
            let why = "it takes the name and the password of an account (HTTP basic \
                       authentication) that has REPLICATION SLAVE";
            return Err(Refused(1045, why.to_owned()));
        };
        let observer = self.serving()?;
        let unreachable = |error: io::Error| Refused(LOST, format!("no connection: {error}"));
        let own = observer.connect(client.transport(), client.encryption.clone());
        let own = own.map_err(unreachable)?;
        let login = Login {
            user: user.clone(),
            password: password.clone(),
            prove: transfer::prove,
            prove_natively: Some(replication::prove_natively),
            encrypt: Some(replication::encrypt_password),
        };
        let mut session = Session::log_in_by(own, &login, client.encryption.is_some())?;
        drop(logs_in);
        let _place = Place::take(&self.0.feeds, FEEDS_MAX).ok_or_else(|| {
            let why = format!(
                "this SQL node sends {FEEDS_MAX} change feeds over HTTP, which is most: read at \
                 another one, or later"
            );
            Refused(TOO_MANY, why)
        })?;
        let name = transfer::quoted_name(&asked.name);
        let from = asked.after.as_ref().map_or(String::new(), |after| format!(" FROM '{after}'"));
        let statement = format!("STREAM CHANGEFEED {name}{from}");
        session.each_row_at_hand(&statement, |row, more| sender.row(&row, more))?;
        Ok(())
    }

    /// The nodes of the process, if they serve.
    fn serving(&self) -> Result<Observer, Refused> {
        let view = self.look(PATIENCE);
        let not_ready = self.told(&view).into_iter().find_map(|report| report.why_not);
        match (view, self.observer(), not_ready) {
            (View::Here(_), Some(observer), None) => Ok(observer),
            (_, _, why) => {
                let why = why.unwrap_or_else(|| "the node has ended".to_owned());
                Err(Refused(1053, format!("the SQL node does not serve: {why}")))
            }
        }
    }
}

fn send(to: &mut dyn Taker, answer: &Answer) -> io::Result<()> {
    to.take(&answer.bytes(false))
}

/// Writes rows as the client wants them.
struct Sender<'t> {
    to: &'t mut dyn Taker,
    name: &'t str,
    form: Form,
    is_chunked: bool,
    has_begun: bool,
    /// What is still to be written.
    pending: Vec<u8>,
    /// Why the client takes nothing any more.
    lost: Option<io::Error>,
}

impl<'t> Sender<'t> {
    fn new(asked: &'t Asked, to: &'t mut dyn Taker) -> Self {
        Self {
            to,
            name: &asked.name,
            form: asked.form,
            is_chunked: asked.takes_chunks,
            has_begun: false,
            pending: Vec::new(),
            lost: None,
        }
    }

    /// A row of STREAM CHANGEFEED; `more` says that another one is at hand.
    fn row(&mut self, row: &TextRow, more: bool) -> io::Result<()> {
        let text = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
        let (position, operation, value) = (text(0), text(1), text(5));
        let line = if operation == "h" {
            json!({ "op": "h", "source": { "name": self.name, "position": position } }).to_string()
        } else if value.starts_with(ENVELOPE) {
            value.to_owned()
        } else {
            let millis: u64 = text(4).parse().unwrap_or(0);
            let source = json!({
                "name": self.name, "db": text(2), "table": text(3), "ts_ms": millis,
                "position": position,
            });
            json!({ "op": operation, "source": source, "csv": value }).to_string()
        };
        match self.form {
            Form::Lines => {
                self.pending.extend(line.as_bytes());
                self.pending.push(b'\n');
            }
            // Without data it is no event, and the client notes its position.
            Form::Events if operation == "h" => {
                self.pending.extend(format!("id: {position}\n\n").as_bytes());
            }
            Form::Events => {
                self.pending.extend(format!("id: {position}\ndata: {line}\n\n").as_bytes());
            }
        }
        if more && self.pending.len() < PIECE_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes what is pending, and the head before it.
    fn flush(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.pending.len() + 512);
        if !std::mem::replace(&mut self.has_begun, true) {
            bytes.extend(self.head().as_bytes());
        }
        if self.is_chunked {
            bytes.extend(format!("{:x}\r\n", self.pending.len()).as_bytes());
        }
        bytes.append(&mut self.pending);
        if self.is_chunked {
            bytes.extend(b"\r\n");
        }
        let taken = self.to.take(&bytes);
        taken.map_err(|error| {
            let kind = error.kind();
            self.lost = Some(error);
            kind.into()
        })
    }

    fn head(&self) -> String {
        let kind = match self.form {
            Form::Lines => "application/x-ndjson",
            Form::Events => "text/event-stream; charset=utf-8",
        };
        let chunked = if self.is_chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{chunked}Cache-Control: \
             no-store\r\nX-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\nConnection: \
             close\r\n\r\n"
        )
    }

    /// Says why nothing follows.
    fn end(&mut self, refused: &Refused) -> io::Result<()> {
        if !self.has_begun && self.pending.is_empty() {
            return send(self.to, &refused.answer(refused.status()));
        }
        let line = json!({ "op": "end", "error": refused.object() });
        let text = match self.form {
            Form::Lines => format!("{line}\n"),
            Form::Events => format!("event: end\ndata: {line}\n\n"),
        };
        self.pending.extend(text.as_bytes());
        self.flush()?;
        if self.is_chunked { self.to.take(b"0\r\n\r\n") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<u8>);

    impl Taker for Kept {
        fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend(bytes);
            Ok(())
        }
    }

    struct Gone;

    impl Taker for Gone {
        fn take(&mut self, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn asked(form: Form, takes_chunks: bool) -> Asked {
        let name = "f\"eed".to_owned();
        Asked { name, form, after: None, account: None, takes_chunks }
    }

    fn row(texts: [&str; 6]) -> TextRow {
        texts.iter().map(|text| (!text.is_empty()).then(|| (*text).to_owned())).collect()
    }

    /// What a client is sent that asks for a form, without the head.
    fn sent(form: Form, is_chunked: bool) -> String {
        let (asked, mut kept) = (asked(form, is_chunked), Kept::default());
        let mut sender = Sender::new(&asked, &mut kept);
        let change = "{\"before\":null,\"op\":\"c\"}";
        sender.row(&row(["7.1", "c", "d", "t", "5", change]), true).unwrap();
        sender.row(&row(["7.2", "d", "d", "t", "5", "1,\"a\nb\""]), false).unwrap();
        sender.row(&row(["8", "h", "", "", "", ""]), false).unwrap();
        sender.end(&Refused(1317, "stopped".to_owned())).unwrap();
        let text = String::from_utf8(kept.0).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert_eq!(head.contains("chunked"), is_chunked, "{head}");
        body.to_owned()
    }

    const CSV: &str = concat!(
        r#"{"csv":"1,\"a\nb\"","op":"d","source":{"db":"d","name":"f\"eed","#,
        r#""position":"7.2","table":"t","ts_ms":5}}"#
    );
    const END: &str = r#"{"error":{"code":1317,"message":"stopped"},"op":"end"}"#;

    #[test]
    fn changes_are_lines_of_json_with_their_positions() {
        let beat = r#"{"op":"h","source":{"name":"f\"eed","position":"8"}}"#;
        let expected = format!("{{\"before\":null,\"op\":\"c\"}}\n{CSV}\n{beat}\n{END}\n");
        assert_eq!(sent(Form::Lines, false), expected);
    }

    #[test]
    fn changes_are_events_whose_ids_are_their_positions() {
        let expected = format!(
            "id: 7.1\ndata: {{\"before\":null,\"op\":\"c\"}}\n\nid: 7.2\ndata: {CSV}\n\nid: \
             8\n\nevent: end\ndata: {END}\n\n"
        );
        assert_eq!(sent(Form::Events, false), expected);
    }

    #[test]
    fn chunks_say_how_long_they_are_and_which_is_the_last() {
        let (mut rest, mut body, mut pieces) = (sent(Form::Lines, true), String::new(), 0);
        loop {
            let (length, more) = rest.split_once("\r\n").unwrap();
            let length = usize::from_str_radix(length, 16).unwrap();
            let (piece, more) = more.split_at(length);
            body.push_str(piece);
            rest = more.strip_prefix("\r\n").unwrap().to_owned();
            pieces += 1;
            if length == 0 {
                break;
            }
        }
        assert_eq!((rest.as_str(), body), ("", sent(Form::Lines, false)));
        assert_eq!(pieces, 4, "rows that are at hand go together");
    }

    #[test]
    fn what_is_refused_before_the_first_row_has_a_status_and_json() {
        for (code, status) in [
            (1045, "401 Unauthorized\r\n"),
            (1227, "403 Forbidden\r\n"),
            (1305, "404 Not Found\r\n"),
            (1105, "409 Conflict\r\n"),
            (1236, "410 Gone\r\n"),
            (1226, "429 Too Many Requests\r\n"),
            (1040, "503 Service Unavailable\r\n"),
        ] {
            let (asked, mut kept) = (asked(Form::Lines, true), Kept::default());
            Sender::new(&asked, &mut kept).end(&Refused(code, "no".to_owned())).unwrap();
            let text = String::from_utf8(kept.0).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{text}");
            let body = format!("\r\n\r\n{{\"error\":{{\"code\":{code},\"message\":\"no\"}}}}\n");
            assert!(text.ends_with(&body), "{text}");
            assert_eq!(text.contains("WWW-Authenticate: Basic "), code == 1045, "{text}");
        }
    }

    #[test]
    fn a_client_that_has_gone_is_told_nothing_more() {
        let asked = asked(Form::Lines, true);
        let mut gone = Gone;
        let mut sender = Sender::new(&asked, &mut gone);
        assert!(sender.row(&row(["8", "h", "", "", "", ""]), false).is_err());
        assert_eq!(sender.lost.map(|error| error.kind()), Some(io::ErrorKind::BrokenPipe));
    }

    #[test]
    fn so_many_feeds_are_sent_at_a_time_and_places_are_given_back() {
        let taken = AtomicUsize::new(0);
        let first = Place::take(&taken, 2);
        let second = Place::take(&taken, 2);
        assert!(first.is_some() && second.is_some() && Place::take(&taken, 2).is_none());
        drop(first);
        assert!(Place::take(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
