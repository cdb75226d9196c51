//! `nines top`: what a cluster is doing now, and what holds it up, on a terminal or as text.
//!
//! # Owns
//! When it is looked, and for how long rates are taken.
//! # Failure
//! On a terminal a management node that does not answer is asked again; otherwise it is the end.
//! # Not here
//! What a look says (`view`), the terminal (`screen`).

mod reading;
mod screen;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::ctl;
use crate::process::{Happening, watch_signals};
use crate::role::request::{Access, Request, Sight, Subject};
use crate::role::status::ClusterStatus;
use crate::role::{Connect, JoinOptions};
use crate::tell;
use reading::Reading;
use screen::Screen;
use view::View;

/// The options of `nines top`.
#[derive(Clone, Debug)]
pub(crate) struct TopOptions {
    /// The management nodes; none for that of this host.
    pub(crate) connect: Option<Connect>,
    /// Where the operator's certificate is.
    pub(crate) join: JoinOptions,
    /// One look.
    pub(crate) once: bool,
    /// Lines of JSON.
    pub(crate) json: bool,
    /// Seconds.
    pub(crate) interval: u64,
}

/// Watches until it is told to stop.
pub(crate) fn run(options: &TopOptions) -> Result<(), String> {
    let (send, signals) = channel();
    watch_signals(send)?;
    let interval = Duration::from_secs(options.interval);
    let (connect, access) = ctl::reach(options.connect.as_ref(), &options.join)?;
    let at = At { connect, access };
    let live = std::io::stdout().is_terminal() && !options.json && !options.once;
    if live {
        watch(&at, options, interval, &signals)
    } else {
        print(&at, options, interval, &signals)
    }
}

/// Prints what it sees: once, or a line of JSON for each interval.
fn print(
    at: &At,
    options: &TopOptions,
    interval: Duration,
    signals: &Receiver<Happening>,
) -> Result<(), String> {
    let mut before = look(at)?.0;
    loop {
        if signals.recv_timeout(interval).is_ok() {
            return Ok(());
        }
        let (now, status) = look(at)?;
        let view = View::of(&status, &before, &now);
        if options.json {
            tell(&serde_json::to_string(&view).map_err(|error| error.to_string())?);
        } else {
            tell(view.text().trim_end());
        }
        if options.once || !options.json {
            return Ok(());
        }
        before = now;
    }
}

/// Shows what it sees until `q` is pressed.
fn watch(
    at: &At,
    options: &TopOptions,
    interval: Duration,
    signals: &Receiver<Happening>,
) -> Result<(), String> {
    let mut screen = Screen::take().map_err(|error| format!("cannot use the terminal: {error}"))?;
    let mut before: Option<Reading> = None;
    loop {
        let began = Instant::now();
        // The first rates come soon.
        let pause = if before.is_some() { interval } else { FIRST_INTERVAL };
        match look(at) {
            Ok((now, status)) => {
                if let Some(before) = &before {
                    screen.show(&View::of(&status, before, &now).text(), options.interval);
                }
                before = Some(now);
            }
            Err(why) => screen.show(&why, options.interval),
        }
        let until = began + pause;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now()).min(STEP);
            if screen.wants_end(left) || signals.try_recv().is_ok() {
                return Ok(());
            }
        }
    }
}

/// Whom it asks, and how.
struct At {
    connect: Connect,
    access: Access,
}

impl At {
    fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<T, String> {
        self.connect.ask(request, &self.access).map_err(|error| error.to_string())
    }
}

/// Asks a management node how all nodes are.
fn look(at: &At) -> Result<(Reading, ClusterStatus), String> {
    let status: ClusterStatus = at.ask(&Request::Status)?;
    let sight: Sight = at.ask(&Request::Look { at: Subject::Figures })?;
    Ok((Reading::of(sight), status))
}

const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// How often it is looked for signals.
const STEP: Duration = Duration::from_millis(100);
