//! A terminal that shows a text and hears single keys.
//!
//! # Guarantees
//! The terminal is left as it was found, also when the program ends by an error or a signal it is
//! told of. What does not fit the window is cut off, at its right and its lower end.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal, until it is dropped.
pub(super) struct Screen {
    /// How keys came before; none when they do not come from a terminal.
    before: Option<Termios>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Screen> {
        let stdin = io::stdin();
        let mut before = None;
        if stdin.is_terminal() {
            let modes = tcgetattr(&stdin)?;
            let mut keys = modes.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(&stdin, OptionalActions::Now, &keys)?;
            before = Some(modes);
        }
        // From here on dropping it puts everything back.
        let screen = Screen { before };
        out(ENTER)?;
        Ok(screen)
    }

    /// Shows a text and how to leave.
    pub(super) fn show(&mut self, text: &str, seconds: u64) {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
        let (columns, rows) =
            size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()));
        // That nobody reads it is no reason to end.
        let _ = out(&page(text, seconds, columns, rows));
    }

    /// Waits for a key at most so long; whether it asks for the end.
    pub(super) fn wants_end(&mut self, patience: Duration) -> bool {
        if self.before.is_none() {
            std::thread::sleep(patience);
            return false;
        }
        let stdin = io::stdin();
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        if !matches!(poll(&mut polled, Some(&timeout)), Ok(1..)) {
            return false;
        }
        let mut keys = [0; 64];
        match rustix::io::read(&stdin, &mut keys) {
            // The terminal is gone.
            Ok(0) | Err(rustix::io::Errno::IO) => true,
            Ok(count) => keys[..count].iter().any(|key| b"qQ\x04".contains(key)),
            Err(_) => false,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = out(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// What is written to show a text in a window of this size.
fn page(text: &str, seconds: u64, columns: usize, rows: usize) -> String {
    let foot = format!("every {seconds} s; q quits");
    let most = rows.saturating_sub(2);
    let lines = text.lines().take(most).chain(["", &foot]);
    let mut page = HOME.to_string();
    for (at, line) in lines.enumerate() {
        if at > 0 {
            page += "\r\n";
        }
        let shown: String = line.chars().filter(|c| !c.is_control()).take(columns).collect();
        page += &shown;
        page += CLEAR_LINE;
    }
    page + CLEAR_REST
}

fn out(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// To the other screen, without a cursor; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off() {
        let text = "a long line\nb\x1b[2J\nc\nd\n";
        let shown = page(text, 2, 6, 4);
        assert_eq!(shown, "\x1b[Ha long\x1b[K\r\nb[2J\x1b[K\r\n\x1b[K\r\nevery \x1b[K\x1b[J");
        assert!(page(text, 2, 80, 24).contains("every 2 s; q quits"));
        assert_eq!(page("", 2, 0, 0), "\x1b[H\x1b[K\r\n\x1b[K\x1b[J");
    }
}
