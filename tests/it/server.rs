//! The server as a process: how it starts, refuses to start, and stops.

use std::net::TcpListener;
use std::process::Command;

use tests::{Server, binary, run};

#[test]
fn it_says_how_to_connect_and_stops_cleanly_on_a_signal() {
    for signal in ["-INT", "-TERM"] {
        let mut server = Server::start(&[]);
        let ready = server.greeting.last().expect("it greets").clone();
        assert!(ready.contains(&server.port.to_string()), "{ready}");
        assert!(ready.contains("mysql "), "{ready}");
        let all = server.greeting.join("\n");
        assert!(all.contains("memory"), "says that data is in memory only: {all}");
        assert_eq!(server.sql("SELECT 1 + 1"), "2\n");
        assert!(server.socket.exists());
        assert_eq!(server.stop(signal), Some(0));
        assert!(!server.socket.exists(), "the socket file is removed");
    }
}

#[test]
fn it_listens_at_both_addresses_of_this_machine() {
    let server = Server::start(&[]);
    let has_ipv6 = std::fs::read_to_string("/proc/net/if_inet6").is_ok_and(|all| !all.is_empty());
    for host in ["127.0.0.1", "::1"].iter().take(1 + usize::from(has_ipv6)) {
        let mut client = Command::new("mysql");
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names"]);
        client.arg(format!("--host={host}")).arg(format!("--port={}", server.port));
        client.args(["-e", "SELECT 1"]);
        assert_eq!(tests::succeed(client), "1\n", "{host}");
    }
}

#[test]
fn what_cannot_be_done_is_one_line_on_standard_error() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let directory = std::env::temp_dir().join(format!("nines-refused-{}", std::process::id()));
    let dir = format!("--dir={}", directory.display());
    let port = format!("--port={port}");
    let cases: &[(&[&str], &str)] = &[
        (&["dev", &dir, &port], "in use"),
        (&["dev", &dir, "--data-nodes=3", "--replicas=2"], "replicas"),
        (&["dev", &dir, "--replicas=5"], "replicas"),
        (&["dev", "--dir=/proc/nowhere"], "/proc/nowhere"),
        (&["dev", "--no-such-option"], "--no-such-option"),
    ];
    for (arguments, word) in cases {
        let mut command = Command::new(binary());
        command.args(*arguments);
        let output = run(command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {errors}");
        let first = errors.lines().next().unwrap_or_default();
        assert!(first.contains(word), "{arguments:?}: {errors}");
    }
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    let server = Server::start(&[]);
    server.sql("SELECT 1");
    let before = server.descriptors();
    for _ in 0..20 {
        let sockets: Vec<_> = (0..50)
            .map(|_| std::net::TcpStream::connect(("127.0.0.1", server.port)).unwrap())
            .collect();
        drop(sockets);
    }
    // They are gone when the server has noticed: ask it something until it has.
    for _ in 0..100 {
        server.sql("SELECT 1");
        if server.descriptors() <= before + 2 {
            return;
        }
    }
    panic!("{} descriptors before, {} after", before, server.descriptors());
}
