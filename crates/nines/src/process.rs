//! What every process that hosts nodes has: signals, and how a bad end is told.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::thread;

use runtime::Event;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wire::Leaving;

/// What the main thread waits for.
pub(crate) enum Happening {
    Cluster(Event),
    Signal,
    /// Somebody with the right to do so asks the process to end, or to start again.
    Leave {
        restart: bool,
    },
}

impl Happening {
    /// What an event means to the process.
    pub(crate) fn of(event: Event) -> Self {
        match event {
            Event::LeaveAsked(leaving) => Self::Leave { restart: leaving == Leaving::StartAgain },
            event => Self::Cluster(event),
        }
    }

    /// Whether it asks the process to end before it has begun.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Self::Signal | Self::Leave { .. })
    }
}

/// Turns the signals that ask for an end into a message; the second one ends at once.
/// Signals that end the process in another way leave traces of its nodes.
pub(crate) fn watch_signals(send: Sender<Happening>) -> Result<(), String> {
    runtime::keep_traces_of_signals(crate::complain)
        .map_err(|error| format!("cannot watch for signals: {error}"))?;
    let signals = Signals::new([SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| format!("cannot watch for signals: {error}"))?;
    let watch = move || {
        for (count, _) in signals.forever().enumerate() {
            // The main thread may be on its way out already.
            let _ = send.send(Happening::Signal);
            if count > 0 {
                std::process::exit(INTERRUPTED);
            }
        }
    };
    let thread = thread::Builder::new().name("signals".into()).spawn(watch);
    thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
}

/// The last words of a process in which a rule was broken.
pub(crate) fn crashed(traces: io::Result<Vec<PathBuf>>) -> String {
    match traces {
        Ok(traces) => {
            let traces: Vec<String> =
                traces.iter().map(|path| path.display().to_string()).collect();
            format!("a rule was broken; what led to it is in {}", traces.join(", "))
        }
        Err(error) => format!("a rule was broken, and no trace written: {error}"),
    }
}

/// The last words of a process that the system gives no more.
pub(crate) fn failed(error: &io::Error) -> String {
    format!("the system refuses what a worker thread needs: {error}")
}

/// The exit code of a process that was interrupted twice.
const INTERRUPTED: i32 = 130;
