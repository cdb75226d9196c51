//! Compressed connections of the command-line client, in clear and encrypted.

use std::fmt::Write;
use std::process::Command;

use tests::{Server, run, succeed};

use crate::tls::{Certificate, modes};

fn client(server: &Server, options: &[&str], statements: &str) -> Command {
    let mut client = server.client("mysql");
    client.args(["--batch", "--skip-column-names", "--max-allowed-packet=64M", "--local-infile"]);
    client.args(options).arg("-e").arg(statements);
    client
}

const STATUS: &str = "SHOW STATUS WHERE Variable_name IN ('Compression', 'Compression_algorithm')";
const SENT: &str = "SHOW STATUS LIKE 'Bytes_sent'";

/// The last column of what the client prints.
fn last(printed: &str) -> u64 {
    printed.split_whitespace().last().expect("a status").parse().expect("a number")
}

#[test]
fn large_results_and_files_go_through_compressed_connections() {
    let certificate = Certificate::elliptic("compression");
    let server = certificate.serve();
    let (encrypted, clear) = modes();
    server.sql("SET GLOBAL local_infile = ON; CREATE DATABASE d");
    server.sql("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(200))");
    let mut file = String::new();
    for id in 0..30_000 {
        writeln!(file, "{id}\trow {id} {}", "nines ".repeat(id % 20)).expect("a text");
    }
    let path = certificate.file("rows.tsv");
    std::fs::write(&path, &file).expect("temporary files can be made");
    for mode in [clear, encrypted] {
        let sql = |statements: &str| succeed(client(&server, &["--compress", mode], statements));
        assert_eq!(sql(STATUS), "Compression\tON\nCompression_algorithm\tzlib\n");
        let load = format!("LOAD DATA LOCAL INFILE '{}' INTO TABLE d.t", path.display());
        sql(&format!("TRUNCATE d.t; {load}"));
        let found = sql("SELECT * FROM d.t ORDER BY id");
        assert!(found == file, "{mode}: {} bytes of {}", found.len(), file.len());
        let sent = last(&sql(&format!("SELECT v FROM d.t LIMIT 10000; {SENT}")));
        let plainly = client(&server, &[mode], &format!("SELECT v FROM d.t LIMIT 10000; {SENT}"));
        let plainly = last(&succeed(plainly));
        assert!(sent * 4 < plainly, "{sent} bytes of {plainly}");
        // Values of many megabytes, several results, errors between them, nothing to compress.
        let large = sql("SELECT REPEAT('x', 40000000); SELECT 1; SELECT HEX(RANDOM_BYTES(1000))");
        assert!(large.starts_with("xxx") && large.len() > 40_000_000, "{}", large.len());
        let literal = format!("SELECT LENGTH('{}')", "y".repeat(100_000));
        assert_eq!(sql(&literal), "100000\n");
        let refused = run(client(&server, &["--compress", mode], "SELECT 1; SELECT nothing"));
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains("ERROR 1054"), "{told}");
    }
    server.sql("SET GLOBAL protocol_compression_algorithms = 'uncompressed'");
    let status = succeed(client(&server, &["--compress", clear], "SHOW STATUS LIKE 'Compression'"));
    assert_eq!(status, "Compression\tOFF\n");
}
