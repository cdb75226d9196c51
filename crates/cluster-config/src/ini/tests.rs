//! What bytes are taken for.

use super::*;

fn read_text(text: &str) -> (Vec<Section>, Vec<String>) {
    read_bytes(text.as_bytes())
}

fn read_bytes(bytes: &[u8]) -> (Vec<Section>, Vec<String>) {
    let mut problems = Problems::default();
    let sections = read(bytes, &mut problems);
    let list = problems.into_list();
    (sections, list.iter().map(|problem| problem.at("f").to_string()).collect())
}

fn values(text: &str) -> Vec<(String, String)> {
    let (sections, problems) = read_text(&format!("[ndbd]\n{text}"));
    assert_eq!(problems, Vec::<String>::new());
    let entries = sections.into_iter().flat_map(|section| section.entries);
    entries.map(|entry| (entry.key, entry.value)).collect()
}

fn value(text: &str) -> String {
    values(&format!("Key={text}\n")).remove(0).1
}

#[test]
fn sections_in_any_case() {
    let text = "[NDBD DEFAULT]\n[ndbd]\n[ db ]\n[Ndb_Mgmd  default]\n[MGM] # one\n[mysqld];\n\
        [API]\n[tcp default]\n[SHM]\n[computer]\n[System]\n[cluster]\n";
    let (sections, problems) = read_text(text);
    assert!(problems.is_empty(), "{problems:?}");
    let found: Vec<_> = sections.iter().map(|s| (s.kind.name(), s.default)).collect();
    let expected = [
        ("ndbd", true),
        ("ndbd", false),
        ("ndbd", false),
        ("ndb_mgmd", true),
        ("ndb_mgmd", false),
        ("mysqld", false),
        ("api", false),
        ("tcp", true),
        ("shm", false),
        ("computer", false),
        ("cluster", false),
        ("cluster", false),
    ];
    assert_eq!(found, expected);
    assert_eq!(sections[3].line, 4);
}

#[test]
fn keys_and_values() {
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    let text = "A=1\n B : two words \n\tC\t=\t3\r\n# no\n; no\n\nD=\nE=a=b\nF:c=d\n";
    let expected = [
        pair("A", "1"),
        pair("B", "two words"),
        pair("C", "3"),
        pair("D", ""),
        pair("E", "a=b"),
        pair("F", "c=d"),
    ];
    assert_eq!(values(text), expected);
}

#[test]
fn comments_behind_values() {
    assert_eq!(value("98M    # How much"), "98M");
    assert_eq!(value("98M ; how much"), "98M");
    assert_eq!(value("# nothing"), "");
    assert_eq!(value("/a#b;c"), "/a#b;c");
    assert_eq!(value("\"a # b\" # c"), "a # b");
    assert_eq!(value("'it is'"), "it is");
    assert_eq!(value("it's"), "it's");
}

#[test]
fn quoting_is_undone_by_reading() {
    for text in ["", "plain", "a # b", "#", "\"x\"", "'x'", " x ", "a\"b", "it's # \"no\"", "a;b"] {
        // A value with both marks and a comment's beginning cannot have been read from a file.
        if text.contains('"') && text.contains('\'') {
            continue;
        }
        assert_eq!(value(&quote(text)), text);
    }
}

#[test]
fn what_cannot_be_understood() {
    let cases: &[(&str, &str)] = &[
        ("A=1\n", "f:1: `A` stands before any section, as in [ndbd]"),
        ("[ndbd\n", "f:1: a section ends with `]`, as in [ndbd default]"),
        ("[ndbd] NodeId=1\n", "f:1: `NodeId=1` stands behind a section's name; put it on its"),
        ("[ndbx]\nA=1\n", "f:1: [ndbx] is not a section; known are [ndbd]"),
        ("[ndbd defaults]\n", "f:1: [ndbd defaults] is not a section; known"),
        ("[cluster default]\n", "f:1: write [cluster] without `default`"),
        ("[sci]\n", "f:1: [sci] has been removed, in NDB too; use [tcp]"),
        ("[]\n", "f:1: [] is not a section; known"),
        ("[ndbd]\nnothing\n", "f:2: `nothing` is neither `key=value` nor a section"),
        ("[ndbd]\n=1\n", "f:2: a value without a key; write `key=value`"),
        ("[ndbd]\nA=\"x\n", "f:2: `A` has a quotation mark that is not closed at the end"),
        ("[ndbd]\nA=\"x\"y\n", "f:2: `A` has a quotation mark that is not closed at the end"),
        ("[ndbd]\nA=\0\n", "f:2: the line has a control character (U+0000); remove it"),
    ];
    for (text, expected) in cases {
        let (_, problems) = read_text(text);
        assert_eq!(problems.len(), 1, "{text:?}: {problems:?}");
        assert!(problems[0].starts_with(expected), "{text:?}: {problems:?}");
    }
}

#[test]
fn bytes_that_are_no_text() {
    let (sections, problems) = read_bytes(b"\xEF\xBB\xBF[ndbd]\r\nA=1\r\n");
    assert_eq!((sections.len(), sections[0].entries[0].value.as_str()), (1, "1"));
    assert!(problems.is_empty());
    let (_, problems) = read_bytes(b"\xFF\xFE[\0n\0");
    assert_eq!(problems, ["f: the file is UTF-16; save it as UTF-8"]);
    let (sections, problems) = read_bytes(b"[ndbd]\nA=\xFF\nB=2\n");
    assert_eq!(problems, ["f:2: the line is not UTF-8 text"]);
    assert_eq!(sections[0].entries.len(), 1);
    let (_, problems) = read_bytes(&vec![b'x'; FILE_SIZE_MAX + 1]);
    assert_eq!(problems, ["f: the file has 4194305 bytes; the limit is 4M"]);
    let mut long = b"[ndbd]\nA=".to_vec();
    long.resize(LINE_SIZE_MAX + 20, b'x');
    let (_, problems) = read_bytes(&long);
    assert_eq!(problems, ["f:2: the line has 16397 bytes; the limit is 16K"]);
    let (_, problems) = read_bytes(&vec![b'\n'; FILE_SIZE_MAX]);
    assert!(problems.is_empty());
}
