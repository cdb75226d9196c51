//! What commands beside statements mean, and texts that are hardly statements.

use super::*;

fn logged_in(world: &World) -> Client {
    let mut client = Client::connect(world, 1, UNIX);
    client.log_in(UTF8, b"root", b"", b"");
    assert_eq!(client.packet()[0], 0);
    client
}

#[test]
fn comments_are_a_statement_and_semicolons_are_none() {
    let mut client = logged_in(&world());
    for text in ["-- x", "# x", "/* x */", "/*!99999 SELECT 1 */", "/* x */;", " -- x;", "/**/ ; ;"]
    {
        let answer = client.answer(format!("\x03{text}").as_bytes());
        assert_eq!((answer.len(), answer[0][0]), (1, 0), "{text}: {answer:?}");
    }
    for text in ["", " ", ";", ";;", " ; \n; "] {
        let answer = client.query(text);
        assert!(answer.contains("#42000Query was empty"), "{text}: {answer}");
    }
    for text in [";SELECT 1", "/* x */; SELECT 1"] {
        let answer = client.query(text);
        assert!(answer.contains("You have an error in your SQL syntax"), "{text}: {answer}");
    }
    let answer = client.query("SHOW SESSION STATUS LIKE 'Com_empty_query'");
    assert!(answer.contains("\u{1}7"), "{answer}");
}

#[test]
fn a_comment_behind_the_last_semicolon_is_a_statement_of_several() {
    let mut client = logged_in(&world());
    // Whether more follows is the 8 of the status behind the two counts.
    let more = |answer: &[Vec<u8>]| answer.iter().map(|ok| ok[3] & 8).collect::<Vec<u8>>();
    for text in ["DO 1; -- end", "DO 1; /* end */ ;", "DO 1;", "DO 1; DO 2;"] {
        let answer = client.answer(format!("\x03{text}").as_bytes());
        let refused = text == "DO 1; DO 2;";
        assert_eq!((answer.len(), answer[0][0] == 0xFF), (1, refused), "{text}: {answer:?}");
    }
    // COM_SET_OPTION: the client sends several statements.
    assert_eq!(client.answer(b"\x1B\0\0").len(), 1);
    for (text, expected) in [
        ("DO 1; -- end", &[8, 0][..]),
        ("DO 1; /* end */ ;", &[8, 0]),
        ("DO 1; DO 2; # end", &[8, 8, 0]),
        ("DO 1; ; ", &[0]),
        ("DO 1; DO 2;", &[8, 0]),
    ] {
        for _ in 0..2 {
            let answer = client.answer(format!("\x03{text}").as_bytes());
            assert_eq!(more(&answer), expected, "{text}: {answer:?}");
        }
    }
}

#[test]
fn columns_are_described_unless_the_client_does_without() {
    let world = world();
    let mut client = Client::connect(&world, 1, UNIX);
    client.packet();
    let mut login = response(UTF8, b"root", b"", b"");
    let more = capability::OPTIONAL_RESULTSET_METADATA | capability::DEPRECATE_EOF;
    login[..4].copy_from_slice(&(CAPABILITIES | more).to_le_bytes());
    client.send(&login);
    assert_eq!(client.packet()[0], 0);
    let answer = client.answer(b"\x03SELECT 7");
    assert_eq!((answer.len(), &answer[0][..]), (4, &[1, 1][..]));
    for _ in 0..2 {
        let prepared = client.answer(b"\x16SELECT ?, 8");
        let head = &prepared[0];
        assert_eq!((prepared.len(), head.len(), head[12]), (4, 13, 1), "{prepared:?}");
    }
    assert_eq!(client.answer(b"\x03SET resultset_metadata = NONE")[0][0], 0);
    for _ in 0..2 {
        let answer = client.answer(b"\x03SELECT 7");
        assert_eq!((&answer[0][..], &answer[1][..], answer.len()), (&[0, 1][..], &b"\x017"[..], 3));
    }
    let prepared = client.answer(b"\x16SELECT ?, 8");
    assert_eq!((prepared.len(), prepared[0][12]), (1, 0), "{prepared:?}");
    // Others cannot ask for it, and are told nothing of it.
    let mut other = logged_in(&world);
    assert!(other.query("SET resultset_metadata = NONE").contains("doesn't support optional"));
    let answer = other.answer(b"\x03SELECT 7");
    assert_eq!((&answer[0][..], answer.len()), (&[1][..], 5));
}

#[test]
fn a_session_counts_apart_from_the_server() {
    let world = world();
    let (mut one, mut other) = (logged_in(&world), Client::connect(&world, 2, UNIX));
    other.log_in(UTF8, b"root", b"", b"");
    assert_eq!(other.packet()[0], 0);
    for _ in 0..3 {
        one.query("SELECT 1");
    }
    other.query("SELECT 1");
    let count = |client: &mut Client, scope: &str| {
        let answer = client.query(&format!("SHOW {scope} STATUS LIKE 'Com_select'"));
        let digits = answer.rfind("Com_select").map(|at| &answer[at + 11..]).unwrap();
        digits.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    assert_eq!([count(&mut one, "SESSION"), count(&mut other, "SESSION")], ["3", "1"]);
    assert_eq!(count(&mut other, "GLOBAL"), "4");
    // Prepared statements of the protocol.
    one.answer(b"\x16SELECT 1");
    let answer = one.query("SHOW STATUS LIKE 'Prepared_stmt_count'");
    assert!(answer.contains("Prepared_stmt_count\u{1}1"), "{answer}");
    let answer = one.query("SHOW SESSION STATUS LIKE 'Com_stmt_prepare'");
    assert!(answer.contains("Com_stmt_prepare\u{1}1"), "{answer}");
}

#[test]
fn attributes_of_a_query_are_read_by_name() {
    let mut client = Client::connect(&world(), 1, UNIX);
    client.packet();
    let mut login = response(UTF8, b"root", b"", b"");
    let capabilities = CAPABILITIES | capability::QUERY_ATTRIBUTES;
    login[..4].copy_from_slice(&capabilities.to_le_bytes());
    client.send(&login);
    assert_eq!(client.packet()[0], 0);
    let mut payload = vec![3, 2, 1];
    // None is NULL; their types are new: a text and a number.
    payload.extend_from_slice(&[0, 1, 254, 0, 1, b'a', 8, 0, 1, b'n']);
    payload.extend_from_slice(b"\x05hello");
    payload.extend_from_slice(&(-12i64).to_le_bytes());
    payload.extend_from_slice(
        b"SELECT CONCAT_WS('|', mysql_query_attribute_string('a'), \
          mysql_query_attribute_string('n'), mysql_query_attribute_string('x') IS NULL)",
    );
    let answer = client.answer(&payload);
    let all = answer.concat();
    assert!(String::from_utf8_lossy(&all).contains("hello|-12|1"), "{answer:?}");
    // The next command has none.
    let answer = client.answer(b"\x03\0\x01SELECT mysql_query_attribute_string('a') IS NULL");
    assert_eq!(answer[answer.len() - 2], [1, b'1']);
}
