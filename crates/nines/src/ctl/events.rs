//! `events`: the cluster log of a management node, and what is added to it.

use std::thread;
use std::time::Duration;

use super::Session;
use crate::role::news::{Entry, Level, Page};
use crate::role::request::{AskError, Request};

/// What has been shown of a log.
#[derive(Debug, Default)]
struct Shown {
    told_by: u16,
    number: u64,
    time: String,
}

impl Shown {
    /// The lines of a page that have not been shown. The log of another management node, or of one
    /// that has begun anew, has other numbers: there the time decides.
    fn new_lines(&mut self, page: Page) -> Vec<Entry> {
        let mut entries = page.entries;
        entries.retain(|entry| {
            if page.told_by == self.told_by {
                entry.number > self.number
            } else {
                entry.time > self.time
            }
        });
        self.told_by = page.told_by;
        self.number = page.newest.min(entries.last().map_or(page.newest, |last| last.number));
        if let Some(last) = entries.last() {
            self.time.clone_from(&last.time);
        }
        entries
    }
}

/// Shows the newest lines; with `follow` also what comes, until the reader goes.
pub(super) fn run(
    session: &mut Session<'_>,
    json: bool,
    follow: bool,
    most: usize,
    level: Level,
) -> Result<(), String> {
    // What is left out does not count.
    let asked = if level > Level::Info { usize::MAX } else { most };
    let page: Page = session.ask(&Request::Events { after: None, most: asked })?;
    let mut shown = Shown { told_by: page.told_by, ..Shown::default() };
    let mut entries = shown.new_lines(page);
    entries.retain(|entry| entry.level >= level);
    entries.drain(..entries.len().saturating_sub(most));
    write(session, json, &entries)?;
    let mut silent = false;
    if !follow {
        return Ok(());
    }
    loop {
        thread::sleep(POLL);
        let request = Request::Events { after: Some(shown.number), most: PAGE };
        let page: Page = match session.connect.ask(&request, &session.access) {
            Ok(page) => page,
            Err(AskError::Refused(why)) => return Err(why),
            Err(AskError::Unreachable(why)) => {
                if !silent {
                    crate::complain(&format!("{why}; tries again"));
                }
                silent = true;
                continue;
            }
        };
        silent = false;
        let page = if page.told_by != shown.told_by || page.newest < shown.number {
            shown.told_by = 0;
            session.ask(&Request::Events { after: None, most: PAGE })?
        } else {
            page
        };
        let mut entries = shown.new_lines(page);
        entries.retain(|entry| entry.level >= level);
        write(session, json, &entries)?;
    }
}

fn write(session: &mut Session<'_>, json: bool, entries: &[Entry]) -> Result<(), String> {
    for entry in entries {
        let line = if json {
            serde_json::to_string(entry).expect("entries are plain")
        } else {
            entry.line()
        };
        session.line(&line)?;
    }
    Ok(())
}

const POLL: Duration = Duration::from_millis(300);
/// Lines that are asked for at once.
const PAGE: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(told_by: u16, numbers: &[u64], second: u64) -> Page {
        let entry = |number: &u64| Entry {
            number: *number,
            time: format!("2026-01-01T00:00:{:02}Z", second + number),
            level: Level::Info,
            node: None,
            event: "note".into(),
            text: String::new(),
        };
        let newest = numbers.last().copied().unwrap_or(0);
        Page { told_by, newest, entries: numbers.iter().map(entry).collect() }
    }

    #[test]
    fn nothing_is_shown_twice() {
        let mut shown = Shown { told_by: 49, ..Shown::default() };
        let mut numbers =
            |page| -> Vec<u64> { shown.new_lines(page).iter().map(|entry| entry.number).collect() };
        assert_eq!(numbers(page(49, &[1, 2], 10)), [1, 2]);
        assert_eq!(numbers(page(49, &[], 10)), Vec::<u64>::new());
        // Another node tells: line 3 of it is as old as what has been seen.
        assert_eq!(numbers(page(50, &[3, 4, 5], 8)), [5]);
    }
}
