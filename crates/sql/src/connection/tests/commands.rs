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
