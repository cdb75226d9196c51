//! Compressed connections.

use mysql_wire::{Channel, FrameNumber, FrameWriter};

use super::*;

/// A client that has logged in, and what comes from the server.
struct Compressed {
    client: Client,
    number: FrameNumber,
    output: Channel,
}

fn login(capabilities: u32) -> Vec<u8> {
    let mut login = response(UTF8, b"root", b"", b"");
    let all = u32::from_le_bytes(*login.first_chunk().unwrap()) | capabilities;
    login[..4].copy_from_slice(&all.to_le_bytes());
    login
}

impl Compressed {
    fn connect(world: &World) -> Self {
        let mut client = Client::connect(world, 1, UNIX);
        client.packet();
        client.send(&login(capability::COMPRESS));
        // The answer to the login is not compressed yet.
        assert_eq!(client.packet()[0], 0);
        let number = FrameNumber::default();
        let mut output = Channel::new(1 << 30);
        output.begin_compression(number.clone());
        Self { client, number, output }
    }

    fn send(&mut self, payload: &[u8]) {
        let mut packet = Vec::new();
        Channel::new(0).write(&mut packet, |out| out.extend_from_slice(payload));
        let received = &mut self.client.link.borrow_mut().received;
        let put = |frame: &[u8]| received.extend_from_slice(frame);
        FrameWriter::new(self.number.clone()).write(&packet, put, || ());
    }

    /// The packets that the server has sent.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            self.client.run();
            let output = mem::take(&mut self.client.link.borrow_mut().output);
            if output.is_empty() && !self.output.is_behind() {
                return packets;
            }
            self.output.feed(&output);
            while let Some(packet) = self.output.next_packet().unwrap() {
                packets.push(packet);
            }
        }
    }

    fn command(&mut self, payload: &[u8]) -> Vec<Vec<u8>> {
        self.number = FrameNumber::default();
        self.output.begin_compression(self.number.clone());
        self.send(payload);
        self.packets()
    }
}

#[test]
fn a_compressed_connection_answers_commands() {
    let world = world();
    let mut client = Compressed::connect(&world);
    assert_eq!(client.command(b"\x0E").len(), 1);
    let rows = client.command(b"\x03SELECT REPEAT('nines ', 100000), 7");
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[4].len(), 600_000 + 4 + 2);
    let status = client.command(b"\x03SHOW STATUS LIKE 'Compression%'");
    let status = String::from_utf8_lossy(&status.concat()).into_owned();
    for text in ["\x0BCompression\x02ON", "Compression_algorithm\x04zlib", "Compression_level\x011"]
    {
        assert!(status.contains(text), "{status:?}");
    }
    // COM_RESET_CONNECTION and COM_CHANGE_USER leave it as it is.
    assert_eq!(client.command(b"\x1F").len(), 1);
    let status = client.command(b"\x03SHOW STATUS LIKE 'Compression'");
    assert!(String::from_utf8_lossy(&status.concat()).contains("Compression\x02ON"));
    assert_eq!(client.command(b"\x11root\0\0\0\x2D\0caching_sha2_password\0")[0][0], 0);
    assert_eq!(client.command(b"\x0E")[0][0], 0);
}

#[test]
fn commands_that_come_at_once_are_answered_in_frames_of_their_own() {
    let world = world();
    let mut client = Compressed::connect(&world);
    for _ in 0..3 {
        client.number = FrameNumber::default();
        client.send(b"\x0E");
    }
    client.client.run();
    let output = mem::take(&mut client.client.link.borrow_mut().output);
    // Each is the second frame of its command.
    assert_eq!(output.len() % 3, 0);
    let size = output.len() / 3;
    let numbers: Vec<u8> = output.chunks(size).map(|frame| frame[3]).collect();
    assert_eq!(numbers, [1, 1, 1]);
}

#[test]
fn a_frame_out_of_order_and_a_damaged_one_end_the_connection() {
    let world = world();
    for (number, inside, error) in [(5, 0, &[0x84, 0x04]), (0, 9, &[0x85, 0x04])] {
        let mut client = Compressed::connect(&world);
        let frame = [1, 0, 0, number, inside, 0, 0, b'x'];
        client.client.link.borrow_mut().received.extend_from_slice(&frame);
        client.client.run();
        assert!(client.client.over);
        let output = mem::take(&mut client.client.link.borrow_mut().output);
        assert_eq!(output[HEADERS..HEADERS + 3], [&[0xFF][..], error].concat(), "{output:?}");
    }
}

/// A frame's and a packet's.
const HEADERS: usize = 7 + 4;

#[test]
fn algorithms_are_those_the_server_offers() {
    let world = world();
    let with = |algorithms: &str| {
        let name = "protocol_compression_algorithms".to_owned();
        world.directory.lock().globals.insert(name, algorithms.to_owned());
        let mut client = Client::connect(&world, 1, UNIX);
        let greeting = client.packet();
        let at = greeting.iter().position(|byte| *byte == 0).unwrap() + 1 + 4 + 8 + 1;
        let offers = u32::from(greeting[at]) & capability::COMPRESS != 0;
        (client, offers)
    };
    let (mut client, offers) = with("uncompressed");
    assert!(!offers);
    // Who asks for it nevertheless has none.
    client.send(&login(capability::COMPRESS));
    assert_eq!(client.packet()[0], 0);
    assert_eq!(client.command(b"\x0E")[0], 0);
    let (mut client, offers) = with("zlib");
    assert!(offers);
    client.send(&login(0));
    assert!(client.refusal().contains("compressed connections"), "the client is told why");
    let (mut client, _) = with("zlib,uncompressed");
    client.send(&login(0));
    assert_eq!(client.packet()[0], 0);
}
