//! Conversations with clients that know exactly what they send.

mod accounts;
mod audit;
mod commands;
mod compressed;
mod cursors;
mod memory;
mod spill;

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use ::client::ClientResult;
use actor::{Encryption, Transport};
use model::{ClusterState, SchemaChange, TableId};
use mysql_wire::auth::CACHING_SHA2;

use super::*;
use crate::admission::Admission;
use crate::kernel::{Ask, Exchange, QueuedAsk};
use crate::link::Goodbye;
use crate::link::LinkState;
use crate::session::options::{ServerAddress, SqlOptions};

/// What a client says it is capable of, by default.
const CAPABILITIES: u32 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::CONNECT_WITH_DB
    | capability::CONNECT_ATTRS;

/// A Unix socket, of a user without a name.
const UNIX: Transport = Transport::Unix { user: None };

/// The numbers of collations of utf8mb4 and latin1.
const UTF8: u8 = 255;
const LATIN1: u8 = 8;

/// A client, with the server's task at the other end.
struct Client {
    link: Rc<RefCell<LinkState>>,
    exchange: Rc<RefCell<Exchange>>,
    task: Pin<Box<dyn Future<Output = ()>>>,
    over: bool,
    /// The number of the next packet, whoever sends it.
    sequence: u8,
    /// How often the server has let others have the worker.
    pauses: usize,
    /// How often the server has asked the cluster for something.
    asks: usize,
    /// Called whenever it asks for something.
    look: Option<Box<dyn FnMut()>>,
}

/// What the connections of a test share.
struct World {
    shared: Rc<Shared>,
    cluster: Arc<ClusterState>,
}

impl Deref for World {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

/// `root` alone, as before accounts are changed.
fn world() -> World {
    world_of(Admission::default(), ClusterState::default())
}

fn world_of(admission: Admission, cluster: ClusterState) -> World {
    let options = SqlOptions {
        directory: Default::default(),
        sequences: Default::default(),
        clock_base: 0,
        host_offset: 0,
        admission,
        address: ServerAddress::default(),
        clock: None,
        stack: None,
    };
    World { shared: Rc::new(Shared::new(&options)), cluster: Arc::new(cluster) }
}

fn tcp(address: &str, loopback: bool) -> Transport {
    Transport::Tcp { address: address.to_owned(), port: 4711, loopback }
}

impl Client {
    fn connect(world: &World, number: u32, transport: Transport) -> Self {
        let peer = ConnectionPeer { transport, tls_offered: true, encryption: None };
        Self::connect_by(world, number, peer)
    }

    fn connect_by(world: &World, number: u32, peer: ConnectionPeer) -> Self {
        let greeting = Greeting {
            number,
            nonce: [b'n'; 20],
            seed: 1,
            peer,
            clock_base: 0,
            shutting_down: number == 0,
        };
        let link = Rc::new(RefCell::new(LinkState::default()));
        let exchange = Rc::new(RefCell::new(Exchange::default()));
        exchange.borrow_mut().cluster = world.cluster.clone();
        let kernel = Kernel::new(exchange.clone());
        let shared = world.shared.clone();
        let task = Box::pin(serve(Link::new(link.clone()), kernel, shared, greeting));
        let mut client =
            Self { link, exchange, task, over: false, sequence: 0, pauses: 0, asks: 0, look: None };
        client.run();
        client
    }

    /// Lets the server go on. It asks the kernel for nothing but settings, which are changed, and
    /// ends, pauses and whether there is news, for which any answer will do.
    fn run(&mut self) {
        while !self.over {
            let mut context = Context::from_waker(Waker::noop());
            self.over = self.task.as_mut().poll(&mut context).is_ready();
            let mut exchange = self.exchange.borrow_mut();
            let Some(QueuedAsk { ticket, ask, .. }) = exchange.asks.pop_front() else { return };
            if let Ask::Schema(SchemaChange::ChangeSettings { changes }) = &ask {
                let mut state = (*exchange.cluster).clone();
                let changed = state.settings.changed(changes, 0).expect("there is room");
                state.settings = Arc::new(changed);
                exchange.cluster = Arc::new(state);
                exchange.answer(ticket, ClientResult::SchemaChanged(TableId(0)));
                continue;
            }
            let expected = matches!(
                ask,
                Ask::Abort | Ask::Commit | Ask::Sleep(_) | Ask::Inspect { .. } | Ask::OpenSnapshot
            );
            assert!(expected, "{ask:?}");
            self.pauses += usize::from(matches!(ask, Ask::Sleep(_)));
            if let Some(look) = &mut self.look {
                look();
            }
            self.asks += usize::from(matches!(ask, Ask::OpenSnapshot));
            exchange.answer(ticket, ClientResult::RolledBack);
        }
    }

    fn send(&mut self, payload: &[u8]) {
        let mut packet = (payload.len() as u32).to_le_bytes();
        packet[3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
        let mut link = self.link.borrow_mut();
        link.received.extend_from_slice(&packet);
        link.received.extend_from_slice(payload);
        drop(link);
        self.run();
    }

    fn command(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sequence = 0;
        self.send(payload);
        self.packet()
    }

    /// The server's next packet, which there must be.
    fn packet(&mut self) -> Vec<u8> {
        let mut link = self.link.borrow_mut();
        let [a, b, c, sequence] = *link.output.first_chunk().expect("the server has answered");
        let size = u32::from_le_bytes([a, b, c, 0]) as usize;
        assert_eq!(sequence, self.sequence, "packets in order");
        self.sequence = self.sequence.wrapping_add(1);
        let packet = link.output[4..4 + size].to_vec();
        link.output.drain(..4 + size);
        packet
    }

    /// All packets of the server's answer to a command.
    fn answer(&mut self, payload: &[u8]) -> Vec<Vec<u8>> {
        self.sequence = 0;
        self.send(payload);
        let mut packets = Vec::new();
        loop {
            while !self.link.borrow().output.is_empty() {
                packets.push(self.packet());
            }
            // It may have waited for that.
            self.run();
            if self.link.borrow().output.is_empty() {
                return packets;
            }
        }
    }

    /// The end of the connection, which says why.
    fn refusal(&mut self) -> String {
        let packet = self.packet();
        assert!(self.over && packet[0] == 0xFF, "{packet:?}");
        let code = u16::from_le_bytes([packet[1], packet[2]]);
        format!("{code} {}", String::from_utf8(packet[3..].to_vec()).unwrap())
    }

    /// All the server answers to a statement, as text.
    fn query(&mut self, text: &str) -> String {
        self.sequence = 0;
        self.send(format!("\x03{text}").as_bytes());
        let answer = mem::take(&mut self.link.borrow_mut().output);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn begin_tls(&mut self) {
        self.begin_tls_with(encryption());
    }

    fn begin_tls_with(&mut self, encryption: Encryption) {
        let mut wish = (CAPABILITIES | capability::SSL).to_le_bytes().to_vec();
        wish.resize(32, 0);
        self.send(&wish);
        assert_eq!(self.link.borrow_mut().start_tls.take(), Some(vec![]));
        self.link.borrow_mut().secured = Some(Rc::new(encryption));
        self.run();
    }

    fn log_in(&mut self, collation: u8, user: &[u8], proof: &[u8], database: &[u8]) {
        self.packet();
        self.send(&response(collation, user, proof, database));
    }
}

fn encryption() -> Encryption {
    let (protocol, cipher) = ("TLSv1.3", "TLS_AES_256_GCM_SHA384");
    Encryption { protocol, cipher, fingerprint: [7; 32], ..Encryption::default() }
}

fn response(collation: u8, user: &[u8], proof: &[u8], database: &[u8]) -> Vec<u8> {
    let mut payload = CAPABILITIES.to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, collation]);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(user);
    payload.extend_from_slice(&[0, proof.len() as u8]);
    payload.extend_from_slice(proof);
    payload.extend_from_slice(database);
    payload.push(0);
    payload.extend_from_slice(CACHING_SHA2.as_bytes());
    payload.push(0);
    payload
}

#[test]
fn an_error_in_place_of_the_greeting_has_no_sqlstate() {
    let shared = world();
    let mut client = Client::connect(&shared, 1, tcp("192.0.2.1", false));
    let text = "1130 Host '192.0.2.1' is not allowed to connect to this MySQL server";
    assert_eq!(client.refusal(), text);
    let mut client = Client::connect(&shared, 0, UNIX);
    assert_eq!(client.refusal(), "1053 Server shutdown in progress");
    // Once the client has been greeted it can be told more.
    let mut client = Client::connect(&shared, 2, UNIX);
    client.packet();
    client.send(b"GET / HTTP/1.1");
    let text = "1043 #08S01Bad handshake: this is no login of MySQL's protocol since 4.1";
    assert_eq!(client.refusal(), text);
    assert_eq!(shared.directory.lock().counters().aborted_connects, 3);
}

#[test]
fn max_connections_and_one_more_are_let_in() {
    let shared = world();
    shared.directory.lock().globals.insert("max_connections".to_owned(), "2".to_owned());
    let mut clients = Vec::new();
    for number in 1..=3 {
        let mut client = Client::connect(&shared, number, UNIX);
        client.log_in(UTF8, b"root", b"", b"");
        assert_eq!(client.packet()[0], 0);
        clients.push(client);
    }
    let mut client = Client::connect(&shared, 4, UNIX);
    assert_eq!(client.refusal(), "1040 Too many connections");
}

#[test]
fn names_of_a_latin1_client_are_converted() {
    let shared = world();
    let mut client = Client::connect(&shared, 1, tcp("127.0.0.1", true));
    client.log_in(LATIN1, b"J\xFCrgen", b"", b"");
    let text = "1045 #28000Access denied for user 'Jürgen'@'localhost' (using password: NO)";
    assert_eq!(client.refusal(), text);
    let mut client = Client::connect(&shared, 2, UNIX);
    client.log_in(LATIN1, b"root", b"", b"caf\xE9");
    assert_eq!(client.refusal(), "1049 #42000Unknown database 'café'");
    let mut client = Client::connect(&shared, 3, UNIX);
    client.log_in(LATIN1, b"root", b"\0", b"");
    assert_eq!(client.packet()[0], 0);
    // COM_INIT_DB.
    assert_eq!(client.command(b"\x02caf\xE9")[3..], *"#42000Unknown database 'café'".as_bytes());
    // COM_CHANGE_USER names its own character set.
    client.sequence = 0;
    client.send("\u{11}Jürgen\0\0\0\u{2D}\0caching_sha2_password\0".as_bytes());
    let text = "1045 #28000Access denied for user 'Jürgen'@'localhost' (using password: NO)";
    assert_eq!(client.refusal(), text);
}

#[test]
fn who_offers_a_password_is_asked_for_it_and_refused() {
    let shared = world();
    let denied = "1045 #28000Access denied for user 'root'@'localhost' (using password: YES)";
    // In clear over a Unix socket, a wish for a public key elsewhere.
    for (transport, said) in [(UNIX, &b"secret\0"[..]), (tcp("::1", true), &[2])] {
        let mut client = Client::connect(&shared, 1, transport);
        client.log_in(UTF8, b"root", &[7; 32], b"");
        assert_eq!(client.packet(), [1, 4]);
        assert!(!client.over);
        client.send(said);
        assert_eq!(client.refusal(), denied);
    }
    // Over TLS.
    let mut client = Client::connect(&shared, 2, tcp("127.0.0.1", true));
    client.packet();
    client.begin_tls();
    client.send(&response(UTF8, b"root", &[7; 32], b""));
    assert_eq!(client.packet(), [1, 4]);
    client.send(b"secret\0");
    assert_eq!(client.refusal(), denied);
}

#[test]
fn a_packet_as_long_as_max_allowed_packet_is_refused() {
    let shared = world();
    shared.directory.lock().globals.insert("max_allowed_packet".to_owned(), "1024".to_owned());
    let mut client = Client::connect(&shared, 1, UNIX);
    client.log_in(UTF8, b"root", b"", b"");
    assert_eq!(client.packet()[0], 0);
    let mut ping = vec![0; 1023];
    ping[0] = 14;
    assert_eq!(client.command(&ping)[0], 0);
    ping.push(0);
    client.sequence = 0;
    client.send(&ping);
    let text = "1153 #08S01Got a packet bigger than 'max_allowed_packet' bytes";
    assert_eq!(client.refusal(), text);
}

#[test]
fn a_reset_leaves_what_belongs_to_the_connection() {
    let mut client = Client::connect(&world(), 1, tcp("127.0.0.1", true));
    client.packet();
    client.begin_tls();
    let mut payload = response(UTF8, b"root", b"", b"");
    payload.extend_from_slice(b"\x0C\x05_name\x05Nines");
    client.send(&payload);
    assert_eq!(client.packet()[0], 0);
    for _ in 0..2 {
        let shown = client.query("SHOW STATUS LIKE 'Ssl_cipher'");
        assert!(shown.contains("TLS_AES_256_GCM_SHA384"), "{shown}");
        let shown = client.query("SELECT attr_value FROM performance_schema.session_connect_attrs");
        assert!(shown.contains("Nines"), "{shown}");
        // COM_RESET_CONNECTION.
        assert_eq!(client.command(&[31])[0], 0);
    }
}
