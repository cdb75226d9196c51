//! Cursors: what a client is told at each fetch, and what the server keeps.

use mysql_wire::constants::cursor;

use super::*;

const NUMBERS: &str =
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 200) ";

/// What a fetch or an execution has come to.
#[derive(Debug, PartialEq)]
enum End {
    /// The cursor is open.
    Open,
    /// It has been closed.
    Last,
    /// This error.
    Error(u16),
    /// No cursor, but an OK.
    Done,
}

fn logged_in(world: &World) -> Client {
    let mut client = Client::connect(world, 1, UNIX);
    client.log_in(UTF8, b"root", b"", b"");
    assert_eq!(client.packet()[0], 0);
    client
}

fn prepare(client: &mut Client, text: &str) -> u32 {
    let answer = client.answer(format!("\x16{text}").as_bytes());
    let [0, a, b, c, d, ..] = answer[0][..] else { panic!("{answer:?}") };
    u32::from_le_bytes([a, b, c, d])
}

fn end_of(packet: &[u8]) -> End {
    match packet {
        [0xFF, low, high, ..] => End::Error(u16::from_le_bytes([*low, *high])),
        [0xFE, _, _, low, high] => {
            let flags = u16::from_le_bytes([*low, *high]);
            match (flags & status::CURSOR_EXISTS != 0, flags & status::LAST_ROW_SENT != 0) {
                (true, false) => End::Open,
                (false, true) => End::Last,
                _ => panic!("flags {flags:#x}"),
            }
        }
        [0, ..] => End::Done,
        other => panic!("{other:?}"),
    }
}

fn about(code: u8, statement: u32) -> Vec<u8> {
    let mut payload = vec![code];
    payload.extend_from_slice(&statement.to_le_bytes());
    payload
}

/// Executes with a cursor; how many columns that gives.
fn execute(client: &mut Client, statement: u32) -> (usize, End) {
    let mut payload = about(Command::EXECUTE, statement);
    payload.extend_from_slice(&[cursor::READ_ONLY, 1, 0, 0, 0]);
    let answer = client.answer(&payload);
    let (last, head) = answer.split_last().expect("an answer");
    // The number of columns, and each of them; no rows.
    let columns = head.first().map_or(0, |count| usize::from(count[0]));
    assert_eq!(head.len(), if columns == 0 { 0 } else { 1 + columns }, "{answer:?}");
    (columns, end_of(last))
}

/// The values of the first column, which is a BIGINT, of what a fetch brings.
fn fetch(client: &mut Client, statement: u32, count: u32) -> (Vec<u64>, End) {
    let mut payload = about(Command::FETCH, statement);
    payload.extend_from_slice(&count.to_le_bytes());
    let answer = client.answer(&payload);
    let (last, rows) = answer.split_last().expect("an answer");
    let value = |row: &Vec<u8>| u64::from_le_bytes(row[2..10].try_into().unwrap());
    (rows.iter().map(value).collect(), end_of(last))
}

fn used(world: &World) -> u64 {
    world.directory.memory().used()
}

#[test]
fn an_empty_result_opens_a_cursor_that_the_first_fetch_closes() {
    let mut client = logged_in(&world());
    let empty = prepare(&mut client, "SELECT 1 AS a, 2 AS b FROM DUAL WHERE FALSE");
    assert_eq!(execute(&mut client, empty), (2, End::Open));
    assert_eq!(fetch(&mut client, empty, 10), (vec![], End::Last));
    assert_eq!(fetch(&mut client, empty, 10), (vec![], End::Error(1421)));
    assert_eq!(fetch(&mut client, 77, 10), (vec![], End::Error(1243)));
    // What has no columns has no cursor, and no error either.
    let set = prepare(&mut client, "SET @a = 1");
    assert_eq!(execute(&mut client, set), (0, End::Done));
    assert_eq!(fetch(&mut client, set, 1), (vec![], End::Error(1421)));
}

#[test]
fn the_last_row_does_not_close_a_cursor_but_asking_for_more_does() {
    let mut client = logged_in(&world());
    let text = "WITH RECURSIVE n AS (SELECT CAST(1 AS UNSIGNED) AS i UNION ALL SELECT i + 1 \
                FROM n WHERE i < 5) SELECT i FROM n";
    let five = prepare(&mut client, text);
    assert_eq!(execute(&mut client, five), (1, End::Open));
    assert_eq!(fetch(&mut client, five, 2), (vec![1, 2], End::Open));
    assert_eq!(fetch(&mut client, five, 3), (vec![3, 4, 5], End::Open));
    assert_eq!(fetch(&mut client, five, 1), (vec![], End::Last));
    assert_eq!(execute(&mut client, five), (1, End::Open));
    assert_eq!(fetch(&mut client, five, 9), (vec![1, 2, 3, 4, 5], End::Last));
    // Another execution begins anew; a reset closes, and so does the end of the session's state.
    assert_eq!(execute(&mut client, five), (1, End::Open));
    assert_eq!(fetch(&mut client, five, 2), (vec![1, 2], End::Open));
    assert_eq!(execute(&mut client, five), (1, End::Open));
    assert_eq!(fetch(&mut client, five, 1), (vec![1], End::Open));
    assert_eq!(client.answer(&about(Command::RESET, five))[0][0], 0);
    assert_eq!(fetch(&mut client, five, 1), (vec![], End::Error(1421)));
}

fn forty_thousand(client: &mut Client) -> u32 {
    let text = format!("{NUMBERS}SELECT a.i * 1000 + b.i FROM n a, n b");
    prepare(client, &text)
}

#[test]
fn a_statement_does_not_run_ahead_of_fetches() {
    let world = world();
    let mut client = logged_in(&world);
    let many = forty_thousand(&mut client);
    assert_eq!(execute(&mut client, many), (1, End::Open));
    let (mut count, mut sum) = (0, 0);
    loop {
        let (rows, end) = fetch(&mut client, many, 3_000);
        count += rows.len();
        sum += rows.iter().sum::<u64>();
        assert_eq!(used(&world), 0, "what waits is less than what a connection has for itself");
        if end == End::Last {
            break;
        }
        assert_eq!((rows.len(), end), (3_000, End::Open));
    }
    assert_eq!((count, sum), (40_000, 200 * 20_100 * 1_001));
    assert_eq!(fetch(&mut client, many, 1), (vec![], End::Error(1421)));
}

#[test]
fn other_commands_leave_the_rows_of_a_cursor_as_they_were() {
    let world = world();
    let mut client = logged_in(&world);
    let many = forty_thousand(&mut client);
    assert_eq!(execute(&mut client, many), (1, End::Open));
    let (first, end) = fetch(&mut client, many, 100);
    assert_eq!((first.len(), end), (100, End::Open));
    let answer = client.query("SELECT 'still here'");
    assert!(answer.contains("still here"), "{answer}");
    assert!(used(&world) > 1 << 19, "the others wait in memory");
    let (rest, end) = fetch(&mut client, many, 50_000);
    assert_eq!((rest.len(), end), (39_900, End::Last));
    let sum = first.iter().chain(&rest).sum::<u64>();
    assert_eq!((sum, used(&world)), (200 * 20_100 * 1_001, 0));
}

#[test]
fn whatever_closes_a_cursor_gives_back_what_it_keeps() {
    let world = world();
    let mut client = logged_in(&world);
    let many = forty_thousand(&mut client);
    for begins in [false, true] {
        for code in [Command::CLOSE, Command::RESET, Command::EXECUTE, Command::RESET_CONNECTION] {
            let statement = forty_thousand(&mut client);
            assert_eq!(execute(&mut client, statement), (1, End::Open));
            fetch(&mut client, statement, 5);
            if begins {
                client.query("SELECT 1");
                assert!(used(&world) > 1 << 19);
            }
            match code {
                Command::EXECUTE => {
                    assert_eq!(execute(&mut client, statement), (1, End::Open));
                    let (rows, _) = fetch(&mut client, statement, 1);
                    assert_eq!(rows.len(), 1);
                    client.answer(&about(Command::CLOSE, statement));
                }
                code => {
                    client.answer(&about(code, statement));
                }
            }
            assert_eq!(used(&world), 0, "command {code} after others: {begins}");
            let expected = if code == Command::RESET { 1421 } else { 1243 };
            assert_eq!(fetch(&mut client, statement, 1), (vec![], End::Error(expected)));
        }
    }
    assert_eq!(fetch(&mut client, many, 1), (vec![], End::Error(1243)), "all were reset");
}

#[test]
fn a_cursor_whose_rows_are_too_many_to_keep_says_so_when_it_comes_to_them() {
    let world = world();
    let mut client = logged_in(&world);
    client.query("SET connection_memory_limit = 2097152");
    let text = format!("{NUMBERS}SELECT a.i, REPEAT('x', 500) FROM n a, n b");
    let many = prepare(&mut client, &text);
    assert_eq!(execute(&mut client, many).1, End::Open);
    let (rows, end) = fetch(&mut client, many, 1_000);
    assert_eq!((rows.len(), end), (1_000, End::Open));
    let answer = client.query("SELECT 'still here'");
    assert!(answer.contains("still here"), "{answer}");
    assert_eq!(fetch(&mut client, many, 1), (vec![], End::Error(3170)));
    assert_eq!(fetch(&mut client, many, 1), (vec![], End::Error(1421)));
    assert_eq!(used(&world), 0);
}

#[test]
fn an_error_in_the_middle_is_told_by_the_fetch_that_comes_to_it() {
    let mut client = logged_in(&world());
    let text = format!(
        "{NUMBERS}SELECT IF(a.i < 150, a.i, a.i * 9223372036854775807) FROM n a, n b \
         ORDER BY a.i, b.i"
    );
    let fails = prepare(&mut client, &text);
    assert_eq!(execute(&mut client, fails), (1, End::Open));
    let (mut count, mut last) = (0, End::Open);
    while last == End::Open {
        let (rows, end) = fetch(&mut client, fails, 1_000);
        (count, last) = (count + rows.len(), end);
    }
    assert_eq!(last, End::Error(1690));
    assert!(count > 0, "the rows before it were fetched");
    assert_eq!(fetch(&mut client, fails, 1), (vec![], End::Error(1421)));
}

#[test]
fn a_client_without_eof_packets_is_told_the_same() {
    let mut client = Client::connect(&world(), 1, UNIX);
    client.packet();
    let mut login = response(UTF8, b"root", b"", b"");
    let capabilities = CAPABILITIES | capability::DEPRECATE_EOF;
    login[..4].copy_from_slice(&capabilities.to_le_bytes());
    client.send(&login);
    assert_eq!(client.packet()[0], 0);
    let one = prepare(&mut client, "SELECT CAST(7 AS UNSIGNED)");
    let mut payload = about(Command::EXECUTE, one);
    payload.extend_from_slice(&[cursor::READ_ONLY, 1, 0, 0, 0]);
    let answer = client.answer(&payload);
    // The number of columns, the column, and an OK with EOF's first byte.
    let flags = |packet: &[u8]| u16::from_le_bytes([packet[3], packet[4]]);
    assert_eq!((answer.len(), answer[2][0]), (3, 0xFE));
    assert_eq!(flags(&answer[2]), status::AUTOCOMMIT | status::CURSOR_EXISTS);
    let mut payload = about(Command::FETCH, one);
    payload.extend_from_slice(&2u32.to_le_bytes());
    let answer = client.answer(&payload);
    assert_eq!((answer.len(), answer[1][0]), (2, 0xFE));
    assert_eq!(flags(&answer[1]), status::AUTOCOMMIT | status::LAST_ROW_SENT);
}
