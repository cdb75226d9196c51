//! Ends that nobody wanted.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use super::*;

#[test]
fn a_panic_stops_all_and_leaves_traces() {
    panics(|_| {});
}

#[test]
fn a_panic_of_a_thread_that_does_the_work_of_another_does_too() {
    panics(data::wait_until_lent);
}

fn panics(before: fn(&Running)) {
    let running = Running::start(2);
    running.board.run_round();
    before(&running);
    let mut unix = UnixStream::connect(&running.unix).unwrap();
    unix.write_all(b"panic").unwrap();
    let Event::Crashed { traces } = running.next_event() else { panic!("something else") };
    let traces = traces.unwrap();
    let names: Vec<_> =
        traces.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let expected = ["node1-trace.txt", "node2-trace.txt", "node49-trace.txt", "node101-trace.txt"];
    assert_eq!(names, expected);
    let text = std::fs::read_to_string(&traces[0]).unwrap();
    // Both workers have left what they did.
    assert!(text.contains(" w0 at ") && text.contains(" w1 at ") && text.contains("Prepare"));
    running.cluster.stop();
}

#[test]
fn a_socket_in_use_is_left_alone_and_a_dead_one_replaced() {
    let directory = Directory::new();
    let path = directory.0.join("s.sock");
    let used = UnixListener::bind(&path).unwrap();
    let mut listeners = Listeners::default();
    let error = listeners.bind_unix(&path).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(used);
    listeners.bind_unix(&path).unwrap();
    drop(listeners);
    assert!(!path.exists());
    // What is no socket is nobody's to remove.
    std::fs::write(&path, "precious").unwrap();
    assert!(Listeners::default().bind_unix(&path).is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
