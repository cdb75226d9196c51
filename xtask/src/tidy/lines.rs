//! Rules on the plain shape of a file: length, width, head, white space, name.

use super::{Finding, Rule, SourceFile};

const LINES_WANTED: usize = 800;
const LINES_MAX: usize = 1_500;
const COLUMNS_MAX: usize = 100;

static HEAD: Rule = Rule {
    name: "file head",
    reason: "the first lines of a file say what it owns, speaks, guarantees and leaves out",
};
static LENGTH: Rule =
    Rule { name: "file length", reason: "a file is read in one sitting, or it holds two things" };
static WIDTH: Rule = Rule {
    name: "line width",
    reason: "two files side by side must fit a screen; rustfmt does not wrap comments",
};
static SPACE: Rule = Rule { name: "white space", reason: "invisible differences make diffs lie" };
static NAME: Rule = Rule {
    name: "file name",
    reason: "a name that says nothing collects what has no place; say what the file is about",
};

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rust = file.has_extension("rs");
    let hand_written = !file.has_extension("lock");
    if rust {
        check_head_and_name(file, &mut findings);
    }
    if rust && !file.is_test() && file.text.lines().count() > LINES_MAX {
        let message = format!("{} lines; the limit is {LINES_MAX}", file.text.lines().count());
        findings.push(Finding::new(&file.path, 1, &LENGTH, message));
    }
    if hand_written {
        for (index, line) in file.text.lines().enumerate() {
            check_line(file, index + 1, line, &mut findings);
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            let last = file.text.lines().count();
            let message = "the last line does not end".to_string();
            findings.push(Finding::new(&file.path, last, &SPACE, message));
        }
    }
    findings
}

/// A file that is allowed, but longer than wanted.
pub(super) fn note_long_file(file: &SourceFile) -> Option<String> {
    let count = file.text.lines().count();
    let long = count > LINES_WANTED && count <= LINES_MAX && !file.is_test();
    long.then(|| format!("{}: {count} lines, {LINES_WANTED} are wanted at most", file.path))
}

/// How many functions ask to be longer than clippy allows.
pub(super) fn length_exceptions(text: &str) -> usize {
    let source = super::RustSource::new(text);
    let packed: String = source.code.split_whitespace().collect();
    packed.matches("#[expect(clippy::too_many_lines").count()
}

fn check_head_and_name(file: &SourceFile, findings: &mut Vec<Finding>) {
    if !file.text.starts_with("//!") {
        let message = "the file does not begin with `//!`".to_string();
        findings.push(Finding::new(&file.path, 1, &HEAD, message));
    }
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let advice = match name {
        "mod.rs" => "name the file after the module and put it beside the folder",
        "utils.rs" | "util.rs" | "common.rs" | "helpers.rs" | "types.rs" | "misc.rs" => {
            "name the file after what it holds"
        }
        _ => return,
    };
    findings.push(Finding::new(&file.path, 1, &NAME, format!("`{name}`: {advice}")));
}

fn check_line(file: &SourceFile, number: usize, line: &str, findings: &mut Vec<Finding>) {
    if line.ends_with([' ', '\t', '\r']) {
        let message = "white space at the end of the line".to_string();
        findings.push(Finding::new(&file.path, number, &SPACE, message));
    }
    if line.contains('\t') {
        let message = "tab; use spaces".to_string();
        findings.push(Finding::new(&file.path, number, &SPACE, message));
    }
    let comment = line.trim_start().trim_start_matches(['/', '!']).trim_start();
    // Tables of tuples inside a macro are read across, like those of a page.
    let in_tuples = line.trim_start().strip_prefix('(');
    let tuple = in_tuples.is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_digit()));
    let free = line.contains("://") || comment.starts_with('|') || tuple;
    let columns = line.chars().count();
    if file.has_extension("rs") && !free && columns > COLUMNS_MAX {
        let message = format!("{columns} columns; the limit is {COLUMNS_MAX}");
        findings.push(Finding::new(&file.path, number, &WIDTH, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::{lines, tree};

    fn found(path: &str, text: &str) -> Vec<String> {
        lines(&check(&tree(&[(path, text)]).files[0]))
    }

    #[test]
    fn head() {
        assert_eq!(found("a.rs", "use b;\n"), ["1 the file does not begin with `//!`"]);
        assert_eq!(found("a.rs", "//! A.\n"), Vec::<String>::new());
        assert_eq!(found("a.md", "A.\n"), Vec::<String>::new());
    }

    #[test]
    fn names() {
        assert!(found("crates/a/src/b/mod.rs", "//! A.\n")[0].contains("`mod.rs`"));
        assert!(found("crates/a/src/utils.rs", "//! A.\n")[0].contains("`utils.rs`"));
    }

    #[test]
    fn length() {
        let text = "//!\n".repeat(LINES_MAX + 1);
        assert_eq!(found("a.rs", &text), ["1 1501 lines; the limit is 1500"]);
        assert_eq!(found("a/tests.rs", &text), Vec::<String>::new());
        let long = tree(&[("a.rs", &"//!\n".repeat(801))]);
        assert!(note_long_file(&long.files[0]).is_some_and(|note| note.contains("801 lines")));
        assert!(found("a.rs", &"//!\n".repeat(801)).is_empty());
    }

    #[test]
    fn width() {
        let wide = |start: &str| format!("//! A.\n{start}{}\n", "x".repeat(100));
        assert_eq!(found("a.rs", &wide("// ")), ["2 103 columns; the limit is 100"]);
        assert_eq!(found("a.rs", &wide("// https://")), Vec::<String>::new());
        assert_eq!(found("a.rs", &wide("/// | ")), Vec::<String>::new());
        assert_eq!(found("a.rs", &wide("    (1001, ")), Vec::<String>::new());
    }

    #[test]
    fn white_space() {
        assert_eq!(found("a.md", "a \n"), ["1 white space at the end of the line"]);
        assert_eq!(found("a.rs", "//!\n\tb\n"), ["2 tab; use spaces"]);
        assert_eq!(found("a.toml", "a\nb"), ["2 the last line does not end"]);
    }

    #[test]
    fn exceptions_are_counted() {
        let text = "#[expect(clippy::too_many_lines, reason = \"a\")]\nfn a() {}\n\
            #[expect(\n    clippy::too_many_lines,\n    reason = \"b\"\n)]\nfn b() {}\n\
            // #[expect(clippy::too_many_lines\n";
        assert_eq!(length_exceptions(text), 2);
    }
}
