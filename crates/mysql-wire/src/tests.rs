//! The protocol against its documentation, and against nonsense.

use stdx::Prng;

use crate::constants::{capability, column};
use crate::*;

#[test]
fn packets_come_out_as_they_went_in_however_they_were_cut() {
    let mut server = Channel::new(64 << 20);
    let mut bytes = Vec::new();
    server.write(&mut bytes, |out| out.extend_from_slice(b"first"));
    server.write(&mut bytes, |_| {});
    for cut in 0..=bytes.len() {
        let mut client = Channel::new(64 << 20);
        client.feed(&bytes[..cut]);
        let early = client.next_packet().unwrap();
        client.feed(&bytes[cut..]);
        let first = early.or_else(|| client.next_packet().unwrap());
        assert_eq!(first.as_deref(), Some(b"first".as_slice()));
        assert_eq!(client.next_packet(), Ok(Some(vec![])));
        assert_eq!(client.next_packet(), Ok(None));
    }
}

#[test]
fn packets_that_are_written_again_have_the_numbers_that_are_next() {
    let parts: [&[u8]; 3] = [b"a count", b"", b"a column"];
    let mut kept = Vec::new();
    let mut first = Channel::new(0);
    parts.iter().for_each(|part| first.write(&mut kept, |out| out.extend_from_slice(part)));
    let (mut server, mut bytes) = (Channel::new(0), Vec::new());
    server.write(&mut bytes, |out| out.push(1));
    server.write_again(&mut bytes, &kept);
    server.write(&mut bytes, |out| out.push(2));
    // A channel that reads refuses packets out of order.
    let mut client = Channel::new(1024);
    client.feed(&bytes);
    let all = std::iter::from_fn(|| client.next_packet().unwrap());
    assert_eq!(all.collect::<Vec<_>>(), [b"\x01", parts[0], parts[1], parts[2], b"\x02"]);
}

#[test]
fn long_payloads_are_several_packets() {
    for size in [0xFF_FFFE, 0xFF_FFFF, 0x100_0000, 2 * 0xFF_FFFF, 2 * 0xFF_FFFF + 1] {
        let mut bytes = Vec::new();
        Channel::new(0).write(&mut bytes, |out| out.resize(out.len() + size, 7));
        let mut client = Channel::new(64 << 20);
        client.feed(&bytes);
        assert_eq!(client.next_packet().unwrap().unwrap().len(), size);
        let mut strict = Channel::new(size);
        strict.feed(&bytes);
        assert_eq!(strict.next_packet(), Err(PacketError::TooLarge));
    }
    let mut client = Channel::new(100);
    client.feed(&[1, 0, 0, 9, 0]);
    assert_eq!(client.next_packet(), Err(PacketError::OutOfOrder));
    // An announced length alone reserves nothing.
    let mut client = Channel::new(1 << 30);
    client.feed(&[0xFF, 0xFF, 0xFF, 0]);
    assert_eq!(client.next_packet(), Ok(None));
}

/// However it is cut, and never taken for the command behind it.
#[test]
fn a_long_payload_is_taken_in_piece_by_piece() {
    let size = 2 * 0xFF_FFFF + 1;
    let mut bytes = Vec::new();
    Channel::new(0).write(&mut bytes, |out| out.extend((0..size).map(|at| at as u8)));
    for piece in [64 << 10, 0xFF_FFFF + 2, 0xFF_FFFF + 6, 20 << 20] {
        let mut client = Channel::new(64 << 20);
        let mut pieces = bytes.chunks(piece).peekable();
        while let Some(piece) = pieces.next() {
            client.feed(piece);
            let payload = client.next_packet().unwrap();
            assert_eq!(payload.is_some(), pieces.peek().is_none());
            let whole = payload.is_none_or(|payload| {
                payload.len() == size && payload.iter().enumerate().all(|(at, b)| at as u8 == *b)
            });
            assert!(whole, "in pieces of {}", piece.len());
        }
    }
    for cut in [3, 100, 0xFF_FFFF + 4, 0xFF_FFFF + 7] {
        let mut client = Channel::new(64 << 20);
        client.feed(&bytes[..cut]);
        assert_eq!(client.next_packet(), Ok(None));
        client.begin_command();
        client.feed(&bytes[cut..]);
        let expected = if cut == 3 { Ok(size) } else { Err(PacketError::OutOfOrder) };
        let payload = client.next_packet().map(|payload| payload.map_or(0, |all| all.len()));
        assert_eq!(payload, expected, "cut at {cut}");
    }
}

#[test]
fn a_payload_is_shorter_than_the_limit_and_its_refusal_has_the_next_number() {
    let mut bytes = Vec::new();
    Channel::new(0).write(&mut bytes, |out| out.resize(out.len() + 1024, 7));
    let mut client = Channel::new(1025);
    client.feed(&bytes);
    assert_eq!(client.next_packet().unwrap().unwrap().len(), 1024);
    // MySQL refuses a payload that is exactly as long as max_allowed_packet.
    let mut strict = Channel::new(1024);
    strict.feed(&bytes[..4]);
    assert_eq!(strict.next_packet(), Err(PacketError::TooLarge));
    let mut refusal = Vec::new();
    strict.write(&mut refusal, |out| out.push(9));
    assert_eq!(refusal, [1, 0, 0, 1, 9]);
    // The second of two packets is the one that makes it too long.
    let mut parts = Vec::new();
    Channel::new(0).write(&mut parts, |out| out.resize(out.len() + 0xFF_FFFF + 100, 7));
    let mut strict = Channel::new(0xFF_FFFF + 100);
    strict.feed(&parts);
    assert_eq!(strict.next_packet(), Err(PacketError::TooLarge));
    refusal.clear();
    strict.write(&mut refusal, |out| out.push(9));
    assert_eq!(refusal, [1, 0, 0, 2, 9]);
}

#[test]
fn an_error_before_capabilities_are_known_has_no_sqlstate() {
    let mut first = Vec::new();
    answer::error(&mut first, 1040, "08004", "Too many connections", 0);
    assert_eq!(first, b"\xFF\x10\x04Too many connections");
    let mut later = Vec::new();
    answer::error(&mut later, 1040, "08004", "Too many connections", capability::OFFERED);
    assert_eq!(later, b"\xFF\x10\x04#08004Too many connections");
}

#[test]
fn names_stay_in_the_clients_character_set() {
    let mut payload = capability::OFFERED.to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 8]);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(b"J\xFCrgen\0\0caf\xE9\0mysql_native_password\0");
    payload.extend_from_slice(b"\x08\x03\xE9\xE8\xE7\x03\xFC\xE4\xF6");
    let response = Response::parse(&payload).unwrap();
    assert_eq!((response.collation, response.user.as_slice()), (8, b"J\xFCrgen".as_slice()));
    assert_eq!(response.database.as_deref(), Some(b"caf\xE9".as_slice()));
    assert_eq!(response.attributes, [(b"\xE9\xE8\xE7".to_vec(), b"\xFC\xE4\xF6".to_vec())]);
    let change = b"J\xFCrgen\0\0caf\xE9\0\x08\0mysql_native_password\0";
    let change = Response::parse_change_user(change, capability::OFFERED).unwrap();
    assert_eq!((change.user, change.database), (response.user, response.database));
    assert_eq!((change.collation, change.plugin), (8, response.plugin));
}

#[test]
fn a_handshake_response_is_taken_apart() {
    let capabilities = capability::OFFERED;
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend_from_slice(&(16u32 << 20).to_le_bytes());
    payload.push(45);
    payload.extend_from_slice(&[0; 23]);
    payload.extend_from_slice(b"root\0\x03abcshop\0caching_sha2_password\0");
    payload.extend_from_slice(b"\x0a\x03key\x05value");
    let response = Response::parse(&payload).unwrap();
    assert_eq!((response.user.as_slice(), response.auth.as_slice()), (&b"root"[..], &b"abc"[..]));
    assert_eq!(response.database.as_deref(), Some(b"shop".as_slice()));
    assert_eq!(response.plugin, "caching_sha2_password");
    assert_eq!(response.attributes, [(b"key".to_vec(), b"value".to_vec())]);
    let mut ssl = (capabilities | capability::SSL).to_le_bytes().to_vec();
    ssl.resize(32, 0);
    assert!(Response::parse(&ssl).unwrap().tls_wanted);
    assert_eq!(Response::parse(&[0; 40]), Err(Malformed), "before 4.1");
}

/// A response up to the name of the user.
fn response_head(capabilities: u32) -> Vec<u8> {
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend_from_slice(&[0, 0, 0, 1, 255]);
    payload.extend_from_slice(&[0; 23]);
    payload
}

#[test]
fn responses_that_lie_about_lengths_are_malformed() {
    let plain = capability::PROTOCOL_41 | capability::SECURE_CONNECTION;
    let long = plain | capability::PLUGIN_AUTH_LENENC;
    let attributes = plain | capability::CONNECT_ATTRS;
    let cases: [(u32, &[u8]); 8] = [
        // No zero byte behind the user.
        (plain, b"root"),
        // 255 bytes of proof are promised, 3 are there.
        (plain, b"root\0\xFFabc"),
        // A length of nine bytes beyond the end, one of a kind that there is not.
        (long, b"root\0\xFE\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFabc"),
        (long, b"root\0\xFFabc"),
        (long, b"root\0\xFE\xFF"),
        // Attributes beyond the end, a name without its value, a value beyond its attributes.
        (attributes, b"root\0\0\x09\x01a"),
        (attributes, b"root\0\0\x02\x01a"),
        (attributes, b"root\0\0\x03\x01a\x05bcdef"),
    ];
    for (capabilities, rest) in cases {
        let payload = [response_head(capabilities).as_slice(), rest].concat();
        assert_eq!(Response::parse(&payload), Err(Malformed), "{rest:?}");
    }
}

#[test]
fn no_more_attributes_are_kept_than_there_is_room_for() {
    let capabilities =
        capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::CONNECT_ATTRS;
    let mut list = Vec::new();
    for _ in 0..10_000 {
        list.extend_from_slice(b"\x01a\x01b");
    }
    let mut payload = response_head(capabilities);
    payload.extend_from_slice(b"root\0\0");
    answer::lenenc_bytes(&mut payload, &list);
    let kept = Response::parse(&payload).unwrap().attributes;
    assert_eq!(kept.len(), (8 << 10) / 50);
    assert_eq!(kept[0], (b"a".to_vec(), b"b".to_vec()));
}

#[test]
fn passwords_are_proven() {
    let nonce = *b"abcdefghijklmnopqrst";
    let stored = auth::native::hash(b"secret");
    // The client's side: SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))).
    use sha1::Digest;
    let stage = sha1::Sha1::digest(b"secret");
    let mask = sha1::Sha1::new().chain_update(nonce).chain_update(stored).finalize();
    let answer: Vec<u8> = stage.iter().zip(mask).map(|(a, b)| a ^ b).collect();
    assert!(auth::native::matches(&answer, &nonce, &stored));
    assert!(!auth::native::matches(&answer, b"another nonce.......", &stored));
    assert!(!auth::native::matches(&[], &nonce, &stored));
    let verifier = auth::sha2::verifier(b"secret");
    let stage = sha2::Sha256::digest(b"secret");
    let mask = sha2::Sha256::new().chain_update(verifier).chain_update(nonce).finalize();
    let answer: Vec<u8> = stage.iter().zip(mask).map(|(a, b)| a ^ b).collect();
    assert!(auth::sha2::matches(&answer, &nonce, &verifier));
    assert!(!auth::sha2::matches(&answer[1..], &nonce, &verifier));
}

#[test]
fn proofs_of_other_implementations_are_understood() {
    let hex = |text: &str| -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    };
    // PASSWORD('password') and PASSWORD('secret') of MySQL 5.7.
    let stored = auth::native::hash(b"password");
    assert_eq!(stored.to_vec(), hex("2470c0c06dee42fd1618bb99005adca2ec9d1e19"));
    let stored = auth::native::hash(b"secret");
    assert_eq!(stored.to_vec(), hex("14e65567abdb5135d0cfd9a70b3032c179a49ee7"));
    // What the tests of Go's driver expect of a client.
    let nonce = hex("46725c5e01260b743f7217657e671a5f51111815").try_into().unwrap();
    let answer = hex("35b18c9ffbbd7f356dfcac32d3c0f0a41a30cf2d");
    assert!(auth::native::matches(&answer, &nonce, &stored));
    assert!(!auth::native::matches(&answer, &nonce, &auth::native::hash(b"Secret")));
    let nonce = hex("0a2f4a6f4b492230584c724a250d035052021715").try_into().unwrap();
    for (password, answer) in [
        ("secret", "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"),
        ("secret2", "abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6"),
    ] {
        let verifier = auth::sha2::verifier(password.as_bytes());
        assert!(auth::sha2::matches(&hex(answer), &nonce, &verifier), "{password}");
        assert!(!auth::sha2::matches(&hex(answer), &nonce, &auth::sha2::verifier(b"")));
    }
    assert!(auth::is_without_password(b"") && auth::is_without_password(b"\0"));
    assert!(!auth::is_without_password(&[0; 20]));
}

#[test]
fn parameters_of_an_execution() {
    let mut types = Vec::new();
    let mut payload = vec![0b0000_0010, 1];
    for (kind, flags) in [
        (column::LONGLONG, 0u8),
        (column::VAR_STRING, 0),
        (column::TINY, 0x80),
        (column::DATETIME, 0),
        (column::TIME, 0),
        (column::DOUBLE, 0),
    ] {
        payload.extend_from_slice(&[kind, flags]);
    }
    payload.extend_from_slice(&(-5i64).to_le_bytes());
    payload.push(200);
    payload.extend_from_slice(&[7, 0xE8, 0x07, 5, 6, 7, 8, 9]);
    payload.extend_from_slice(&[8, 1, 1, 0, 0, 0, 2, 3, 4]);
    payload.extend_from_slice(&1.5f64.to_le_bytes());
    let (parsed, _) = parse_execute(&payload, 6, 0, &mut types, &[], false).unwrap();
    assert_eq!(parsed[0], Parameter::Int(-5));
    assert_eq!(parsed[1], Parameter::Null);
    assert_eq!(parsed[2], Parameter::UInt(200));
    let (year, month, day, hour, minute, second) = (2024, 5, 6, 7, 8, 9);
    let date_only = false;
    let expected =
        Parameter::DateTime { date_only, year, month, day, hour, minute, second, micros: 0 };
    assert_eq!(parsed[3], expected);
    let (negative, days, hours, minutes, seconds) = (true, 1, 2, 3, 4);
    assert_eq!(parsed[4], Parameter::Time { negative, days, hours, minutes, seconds, micros: 0 });
    assert_eq!(parsed[5], Parameter::Double(1.5));
    // The next execution repeats the types, and the text came in pieces.
    let mut again = vec![0b0011_1100, 0];
    again.extend_from_slice(&9i64.to_le_bytes());
    let long = [None, Some(b"pieces".to_vec())];
    let (parsed, _) = parse_execute(&again, 6, 0, &mut types, &long, false).unwrap();
    assert_eq!(parsed[..2], [Parameter::Int(9), Parameter::Bytes(b"pieces".to_vec())]);
    assert_eq!(parse_execute(&[0, 0], 6, 0, &mut Vec::new(), &[], false), Err(Malformed));
}

#[test]
fn a_client_with_query_attributes_sends_number_and_names_of_parameters() {
    // Connector/Python leaves the flag out where there is no attribute.
    for flags in [0, 8] {
        let mut payload = vec![1, 0, 1, column::TINY, 0, 0, 7];
        let mut types = Vec::new();
        let parsed = parse_execute(&payload, 1, flags, &mut types, &[], true);
        assert_eq!(parsed, Ok((vec![Parameter::Int(7)], vec![])));
        payload = vec![2, 0, 1, column::TINY, 0, 0, column::TINY, 0, 1, b'n', 7, 8];
        let parsed = parse_execute(&payload, 1, flags, &mut types, &[], true);
        let attribute = (b"n".to_vec(), Parameter::Int(8));
        assert_eq!(parsed, Ok((vec![Parameter::Int(7)], vec![attribute])));
    }
}

#[test]
fn an_execution_without_the_flag_for_query_attributes_is_understood() {
    let mut types = Vec::new();
    // Without parameters nothing follows, or the number zero.
    for (payload, flags) in [(&[][..], 0), (&[0][..], 8), (&[0][..], 0)] {
        let parsed = parse_execute(payload, 0, flags, &mut types, &[], true);
        assert_eq!(parsed, Ok(Default::default()), "{payload:?}");
    }
    // With parameters, their number and names are there whether the flag is or not; the types may
    // be those of an earlier execution.
    let first = [2, 0, 1, column::TINY, 0, 0, column::TINY, 0, 0, 7, 8];
    let parsed = parse_execute(&first, 2, 0, &mut types, &[], true);
    assert_eq!(parsed, Ok((vec![Parameter::Int(7), Parameter::Int(8)], vec![])));
    let parsed = parse_execute(&[2, 0b10, 0, 9], 2, 0, &mut types, &[], true);
    assert_eq!(parsed, Ok((vec![Parameter::Int(9), Parameter::Null], vec![])));
    // The flag means nothing from a client that has no query attributes.
    let parsed = parse_execute(&[0b10, 0, 9], 2, 8, &mut types, &[], false);
    assert_eq!(parsed, Ok((vec![Parameter::Int(9), Parameter::Null], vec![])));
    assert_eq!(parse_execute(&[1, 0, 0, 9], 2, 0, &mut types, &[], true), Err(Malformed));
}

#[test]
fn integers_and_ends_of_rows() {
    let mut out = Vec::new();
    for value in [0, 250, 251, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
        answer::lenenc(&mut out, value);
    }
    let mut reader = reader::Reader(&out);
    for value in [0, 250, 251, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000, u64::MAX] {
        assert_eq!(reader.lenenc(), Ok(value));
    }
    let mut row = Vec::new();
    answer::text_int(&mut row, i64::MIN);
    answer::text_uint(&mut row, u64::MAX);
    answer::text_int(&mut row, 0);
    assert_eq!(row, b"\x14-9223372036854775808\x1418446744073709551615\x010");
    let mut end = Vec::new();
    answer::end_of_rows(&mut end, &answer::Ok::default(), 0);
    assert_eq!(end, [0xFE, 0, 0, 0, 0]);
}

#[test]
fn nonsense_is_refused_and_never_panics() {
    let mut prng = Prng::new(3);
    for _ in 0..100_000 {
        let length = prng.below(60);
        let bytes: Vec<u8> = (0..length).map(|_| prng.next_u64() as u8).collect();
        let mut channel = Channel::new(1 << 20);
        channel.feed(&bytes);
        while let Ok(Some(_)) = channel.next_packet() {}
        let _ = Response::parse(&bytes);
        let _ = Response::parse_change_user(&bytes, capability::OFFERED);
        let command = Command::parse(bytes.clone(), prng.percent(50));
        if let Ok(Command::Execute { flags, payload, .. }) = command {
            let count = prng.below(20) as usize;
            let _ = parse_execute(&payload, count, flags, &mut Vec::new(), &[], true);
        }
        let _ = parse_execute(&bytes, 3, 8, &mut Vec::new(), &[], true);
    }
}
