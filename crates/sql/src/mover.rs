//! What the list of connections shows of the task that moves tables, and what others read there.
//!
//! # Owns
//! The text of such a task: the statement that moves a table, and why others could not be moved.
//! # Not here
//! The task (`ddl::moves`), the table `nines.moves` (`information`).

use std::collections::BTreeMap;

use crate::catalog::text::quoted;

/// Errors that the list of connections shows, and bytes of each: other SQL nodes are told the
/// beginning of a text.
const SHOWN: usize = 3;
const WHY_MAX: usize = 200;
/// What is before each error.
const FAILED: &str = "\n-- not moved: ";

/// What the list of connections calls whoever moves tables.
pub(crate) const USER: &str = "table mover";
/// And its command.
pub(crate) const COMMAND: &str = "Daemon";

/// What moves a table, as its owner would say it.
pub(crate) fn statement_of(full: &str) -> String {
    let Some((database, name)) = full.split_once('.') else {
        return format!("MOVE {}", quoted(full));
    };
    format!("ALTER TABLE {}.{} REORGANIZE PARTITION", quoted(database), quoted(name))
}

/// What the list of connections shows of a mover: the statement, and why tables were not moved.
pub(crate) fn shown(statement: &str, failed: &BTreeMap<String, String>) -> String {
    let mut text = statement.to_owned();
    for (name, why) in failed.iter().take(SHOWN) {
        let end = why.floor_char_boundary(WHY_MAX);
        text.push_str(&format!("{FAILED}{}: {}", quoted(name), why[..end].replace('\n', " ")));
    }
    text
}

/// The kernel's name of the table that a mover moves, by what the list of connections shows.
pub(crate) fn is_moving(shown: &str, full: &str) -> bool {
    shown.split(FAILED).next() == Some(&statement_of(full))
}

/// Why a mover could not move a table, by what the list of connections shows.
pub(crate) fn failure_of<'a>(shown: &'a str, full: &str) -> Option<&'a str> {
    let beginning = format!("{}: ", quoted(full));
    shown.split(FAILED).skip(1).find_map(|failed| failed.strip_prefix(&beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_mover_tells_the_table_and_what_failed() {
        let failed =
            ["d.full", "d.`x`", "#sequences"].map(|name| (name.to_owned(), "no\nroom".to_owned()));
        let failed = BTreeMap::from(failed);
        let text = shown(&statement_of("d.t"), &failed);
        assert!(text.starts_with("ALTER TABLE `d`.`t` REORGANIZE PARTITION\n"), "{text}");
        assert!(
            is_moving(&text, "d.t") && !is_moving(&text, "d.tt") && !is_moving(&text, "d.full")
        );
        for name in failed.keys() {
            assert_eq!(failure_of(&text, name), Some("no room"), "{name}");
        }
        assert_eq!(failure_of(&text, "d.t"), None);
        // While it waits.
        let text = shown("", &failed);
        assert!(!is_moving(&text, "d.t") && failure_of(&text, "d.full") == Some("no room"));
        // Of many errors some are shown, and all of that fits what other SQL nodes are told.
        let many = (0..99).map(|at| (format!("d.t{at}"), "ü".repeat(500)));
        let text = shown(&statement_of("d.t"), &many.collect());
        assert!(text.len() < wire::relay::TEXT_MAX, "{}", text.len());
        assert!(failure_of(&text, "d.t0").is_some() && failure_of(&text, "d.t98").is_none());
    }
}
