//! The command-line client: status, completion, interruption, what it prints.

use std::io::Write;
use std::process::Stdio;

use tests::{Server, run, succeed};

#[test]
fn a_first_session() {
    let server = Server::start(&[]);
    let found = server.sql(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50), \
         price DECIMAL(8,2), KEY (name));
         INSERT INTO items (name, price) VALUES ('apple', 0.5), ('pear', 0.75), ('plum', 0.2);
         SELECT name, price * 2 FROM items WHERE price > 0.3 ORDER BY name DESC;
         UPDATE items SET price = price + 1 WHERE name = 'plum';
         DELETE FROM items WHERE name = 'pear';
         SELECT COUNT(*), SUM(price), MAX(name) FROM items;",
    );
    assert_eq!(found, "pear\t1.50\napple\t1.00\n2\t1.70\tplum\n");
}

#[test]
fn status_databases_and_completion() {
    let server = Server::start(&[]);
    server.sql("CREATE DATABASE one; CREATE TABLE one.t (a INT, b INT)");
    let mut client = server.client("mysql");
    // With completion on, the client asks for all tables and columns when it connects.
    client.args([
        "--auto-rehash",
        "--table",
        "one",
        "-e",
        "\\s; SHOW TABLES; SHOW DATABASES; DESC t",
    ]);
    let text = succeed(client);
    for part in ["Current user:", "root@", "Server version:", "Uptime:", "| t ", "| one ", "| a "] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let mut socket = std::process::Command::new("mysql");
    socket.args([
        "--no-defaults",
        "--user=root",
        "--batch",
        "--skip-column-names",
        "-e",
        "SELECT 42",
    ]);
    socket.arg(format!("--socket={}", server.socket.display()));
    assert_eq!(succeed(socket), "42\n");
}

#[test]
fn errors_have_their_numbers_and_the_connection_goes_on() {
    let server = Server::start(&[]);
    let cases = [
        ("SELEC 1", "ERROR 1064 (42000)"),
        ("SELECT * FROM nowhere.t", "ERROR 1049 (42000)"),
        ("CREATE DATABASE d; SELECT * FROM d.t", "ERROR 1146 (42S02)"),
        ("SELECT 1 FROM d.t", "ERROR 1146 (42S02)"),
        ("SELECT", "ERROR 1064 (42000)"),
        ("USE nowhere", "ERROR 1049 (42000)"),
        ("SET nothing = 1", "ERROR 1193 (HY000)"),
        (
            "CREATE TRIGGER d.g BEFORE INSERT ON d.t FOR EACH ROW SET NEW.a = 1",
            "ERROR 1235 (42000)",
        ),
    ];
    for (statement, expected) in cases {
        let output = server.try_sql(statement);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(expected), "{statement}: {errors}");
    }
    let mut forced = server.client("mysql");
    forced.args(["--force", "--batch", "--skip-column-names"]);
    let mut forced = forced
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the client is installed");
    let mut input = forced.stdin.take().expect("its input is piped");
    input.write_all(b"SELEC 1;\nSELECT 7;\n").expect("the client reads");
    drop(input);
    let output = forced.wait_with_output().expect("it is our child");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
}

#[test]
fn a_statement_can_be_killed() {
    let server = Server::start(&[]);
    let mut client = server.client("mysql");
    client.args(["--batch", "--skip-column-names", "-e", "SELECT SLEEP(600)"]);
    let sleeper = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut id = String::new();
    for _ in 0..500 {
        id = server
            .sql("SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'");
        if !id.is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.sql(&format!("KILL QUERY {id}"));
    let output = sleeper.wait_with_output().unwrap();
    // SLEEP answers 1 when it is interrupted and is the whole statement.
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text == "1\n" || errors.contains("ERROR 1317"), "{text} {errors}");
}

/// A separator behind the last field is no field; a column that SET gives its value lacks none;
/// NULL where there is none is said once; the first value that was generated is LAST_INSERT_ID().
#[test]
fn load_data_warns_of_what_is_lost_alone() {
    let server = Server::start(&["--local-infile"]);
    let path = std::env::temp_dir().join(format!("nines-warn-{}.csv", std::process::id()));
    std::fs::write(&path, "1,2,\n3,4,\n5,6,7\n8,9,,\n\\N,1\n").unwrap();
    let load = |table: &str, more: &str| {
        format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE {table} FIELDS TERMINATED BY ',' {more};
             SHOW WARNINGS;",
            path.display()
        )
    };
    let mut client = server.client("mysql");
    client.args(["--local-infile=1", "--batch", "--skip-column-names", "-e"]);
    client.arg(format!(
        "CREATE DATABASE d; USE d; CREATE TABLE t (a INT NOT NULL, b INT);
         CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, c INT NOT NULL, d INT NOT NULL);
         {} SELECT '-'; {} SELECT LAST_INSERT_ID(), MIN(id), SUM(c), SUM(d) FROM s;",
        load("t", ""),
        load("s", "(@x, d) SET c = COALESCE(@x, 0)"),
    ));
    let truncated = |row| {
        format!(
            "Warning\t1262\tRow {row} was truncated; it contained more data than there were input \
             columns\n"
        )
    };
    let null = "Warning\t1263\tColumn set to default value; NULL supplied to NOT NULL column 'a' \
                at row 5\n";
    let both = truncated(3) + &truncated(4);
    assert_eq!(succeed(client), format!("{both}{null}-\n{both}1\t1\t17\t22\n"));
    let _ = std::fs::remove_file(path);
}

#[test]
fn load_data_local_reads_the_clients_file() {
    let server = Server::start(&["--local-infile"]);
    let path = std::env::temp_dir().join(format!("nines-load-{}.csv", std::process::id()));
    let mut text = String::from("id,name\n");
    for id in 1..=5000 {
        text.push_str(&format!("{id},\"name, {id}\"\n"));
    }
    std::fs::write(&path, text).unwrap();
    let mut client = server.client("mysql");
    client.args(["--local-infile=1", "--batch", "--skip-column-names", "-e"]);
    client.arg(format!(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, name VARCHAR(40));
         LOAD DATA LOCAL INFILE '{}' INTO TABLE d.t FIELDS TERMINATED BY ',' ENCLOSED BY '\"'
         IGNORE 1 LINES; SELECT COUNT(*), SUM(id), MIN(name) FROM d.t",
        path.display()
    ));
    assert_eq!(succeed(client), "5000\t12502500\tname, 1\n");
    // Bytes of a character are no ends of fields: 0x5C is in the code of `表`, 0x7C in that of `楯`.
    std::fs::write(&path, b"1|\x95\x5C|x\n2|\x8F\x63|\x83\x5C\n3|\x8F\x7C|y\n").unwrap();
    let mut client = server.client("mysql");
    client.args(["--local-infile=1", "--batch", "--skip-column-names", "-e"]);
    client.arg(format!(
        "CREATE TABLE d.s (id INT PRIMARY KEY, a VARCHAR(9) CHARACTER SET sjis, b VARCHAR(9));
         LOAD DATA LOCAL INFILE '{}' INTO TABLE d.s CHARACTER SET sjis FIELDS TERMINATED BY '|';
         SELECT id, HEX(a), HEX(b) FROM d.s ORDER BY id",
        path.display()
    ));
    assert_eq!(succeed(client), "1\t955C\t78\n2\t8F63\tE382BD\n3\t8F7C\t79\n");
    let _ = std::fs::remove_file(path);
    // A client that did not offer it is asked for no file.
    let mut session = server.session().expect("it serves");
    let load = "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE d.t";
    let refused = session.query(load).err().and_then(|error| error.code());
    assert_eq!(refused, Some(3948));
    // Nor is one where the server does not want that, as it is at first.
    server.sql("SET GLOBAL local_infile = DEFAULT");
    let mut client = server.client("mysql");
    client.args(["--local-infile=1", "-e", load]);
    let output = run(client);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("ERROR 3948 (42000)"), "{said}");
}
