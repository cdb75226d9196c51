//! JSON against MySQL's documented examples.

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn path(text: &str) -> JsonPath {
    JsonPath::parse(text).unwrap_or_else(|at| panic!("{text}: at {at}"))
}

#[test]
fn printed_form() {
    for (text, printed) in [
        ("{\"b\":1,\"a\":[1,2.0,null,true]}", "{\"a\": [1, 2.0, null, true], \"b\": 1}"),
        ("{\"aa\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2, \"aa\": 1}"),
        ("{\"a\":1,\"a\":2}", "{\"a\": 2}"),
        ("{\"a\":1,\"b\":5,\"a\":2,\"b\":6}", "{\"a\": 2, \"b\": 6}"),
        (" [ ] ", "[]"),
        ("{}", "{}"),
        ("1e3", "1000.0"),
        ("1e20", "1e20"),
        ("-0.5", "-0.5"),
        ("18446744073709551615", "18446744073709551615"),
        ("18446744073709551616", "1.8446744073709552e19"),
        ("\"a\\u00e9\\n\\/\\\"\\u0001\\ud83d\\ude00\"", "\"aé\\n/\\\"\\u0001😀\""),
    ] {
        assert_eq!(json(text).to_text(), printed);
        assert_eq!(json(printed).to_text(), printed);
        assert_eq!(Json::decode(&json(text).encode()), Some(json(text)));
    }
    let pretty = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}";
    assert_eq!(json("{\"a\":[1,{}],\"b\":[]}").to_pretty(), pretty);
}

#[test]
fn errors_have_mysqls_words() {
    for (text, message, position) in [
        ("", "The document is empty.", 0),
        ("  ", "The document is empty.", 2),
        ("a", "Invalid value.", 0),
        ("nul", "Invalid value.", 3),
        ("[1 2]", "Missing a comma or ] after an array element.", 3),
        ("[1,", "Invalid value.", 3),
        ("{\"a\" 1}", "Missing a colon after a name of object member.", 5),
        ("{\"a\":1 \"b\"", "Missing a comma or } after an object member.", 7),
        ("{a:1}", "Missing a name for object member.", 1),
        ("1 2", "The document root must not be followed by other values.", 2),
        ("01", "The document root must not be followed by other values.", 1),
        ("\"a", "Missing a closing quotation mark in string.", 2),
        ("\"\\x\"", "Invalid escape character in string.", 1),
        ("\"\\u12g4\"", "Incorrect hex digit after \\u escape in string.", 1),
        ("\"\\ud800x\"", "The surrogate pair in string is invalid.", 1),
        ("\"\\ud800\\u0041\"", "The surrogate pair in string is invalid.", 1),
        ("1.", "Miss fraction part in number.", 2),
        ("1e", "Miss exponent in number.", 2),
        ("1e999", "Number too big to be stored in double.", 0),
    ] {
        let error = Json::parse(text.as_bytes()).unwrap_err();
        assert_eq!((error.message, error.position), (message, position), "{text}");
    }
    assert!(Json::parse(b"\"\xFF\"").is_err());
    let deep = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
    assert!(Json::parse(deep(DEPTH_MAX).as_bytes()).is_ok());
    assert!(Json::parse(deep(DEPTH_MAX + 1).as_bytes()).unwrap_err().is_too_deep);
    assert!(Json::parse(deep(100_000).as_bytes()).unwrap_err().is_too_deep);
}

#[test]
fn facts() {
    assert_eq!(json("[1,[2]]").depth(), 3);
    assert_eq!((json("[]").depth(), json("{}").depth(), json("1").depth()), (1, 1, 1));
    assert_eq!((json("[1,2]").length(), json("{\"a\":1}").length(), json("5").length()), (2, 1, 1));
    assert_eq!(json("{\"b\":1,\"a\":2}").keys(), Some(json("[\"a\",\"b\"]")));
    assert_eq!(json("[]").keys(), None);
    assert_eq!(json("\"a\\\"b\"").unquoted(), "a\"b");
    let types = ["null", "true", "-1", "18446744073709551615", "1.5", "\"\"", "[]", "{}"];
    let names: Vec<&str> = types.iter().map(|text| json(text).type_name()).collect();
    let expected = "NULL BOOLEAN INTEGER UNSIGNED_INTEGER DOUBLE STRING ARRAY OBJECT";
    assert_eq!(names.join(" ").replace("D I", "D_I"), expected);
}

#[test]
fn order_is_by_kind_and_value() {
    let ascending = [
        "null",
        "-1",
        "0.5",
        "1",
        "18446744073709551615",
        "1e30",
        "\"A\"",
        "\"a\"",
        "\"ab\"",
        "{\"a\": 1}",
        "[]",
        "[1]",
        "[1, 2]",
        "[2]",
        "false",
        "true",
    ];
    for (i, a) in ascending.iter().enumerate() {
        for (j, b) in ascending.iter().enumerate() {
            assert_eq!(json(a).compare(&json(b)), i.cmp(&j), "{a} {b}");
        }
    }
    assert!(json("1").compare(&json("1.0")).is_eq());
    assert!(json("{\"a\":1,\"b\":2}").compare(&json("{\"b\":2,\"a\":1}")).is_eq());
    let big = Json::Decimal(Decimal::from(u64::MAX));
    assert!(big.compare(&Json::UInt(u64::MAX)).is_eq());
}

#[test]
fn paths() {
    let value = json("{\"a\":{\"b\":1},\"c\":{\"b\":2},\"d\":[1,[2,3],{\"b\":4}],\"x y\":5}");
    for (text, expected) in [
        ("$.a.b", "[1]"),
        ("$.*.b", "[1, 2]"),
        ("$**.b", "[1, 2, 4]"),
        ("$.d[0]", "[1]"),
        ("$.d[last]", "[{\"b\": 4}]"),
        ("$.d[last-1][0]", "[2]"),
        ("$.d[*]", "[1, [2, 3], {\"b\": 4}]"),
        ("$.d[0 to 1]", "[1, [2, 3]]"),
        ("$.d[1 to last]", "[[2, 3], {\"b\": 4}]"),
        ("$.d[last-9 to 0]", "[1]"),
        ("$.\"x y\"", "[5]"),
        ("$ . a [0] . b", "[1]"),
        ("$.a.b[0][last]", "[1]"),
        ("$.a.b[1]", "[]"),
        ("$.nothing", "[]"),
        ("$.d[3]", "[]"),
        ("$.d[2 to 9]", "[{\"b\": 4}]"),
    ] {
        let found = path(text).seek(&value).into_iter().cloned().collect();
        assert_eq!(Json::Array(found).to_text(), expected, "{text}");
    }
    for (wrong, at) in [
        ("", 0),
        ("a", 0),
        ("$.", 2),
        ("$.a.", 4),
        ("$**", 3),
        ("$[", 2),
        ("$[1", 3),
        ("$[a]", 2),
        ("$[2 to 1]", 8),
        ("$.\"a", 4),
        ("$a", 1),
        ("$***.a", 3),
        ("$.1a", 2),
        ("$[4294967296]", 12),
    ] {
        assert_eq!(JsonPath::parse(wrong), Err(at), "{wrong}");
    }
    assert!(path("$[*]").has_wildcard() && !path("$.a[1]").has_wildcard());
    assert_eq!(path("$").first(&value), Some(&value));
}

#[test]
fn extracting() {
    let value = json("[10, 20, [30, 40]]");
    assert_eq!(value.extract(&[path("$[1]")]), Some(json("20")));
    assert_eq!(value.extract(&[path("$[1]"), path("$[0]")]), Some(json("[20,10]")));
    assert_eq!(value.extract(&[path("$[2][*]")]), Some(json("[30,40]")));
    assert_eq!(value.extract(&[path("$[9]")]), None);
    assert_eq!(value.extract(&[path("$[9]"), path("$[0]")]), Some(json("[10]")));
}

#[test]
fn changing() {
    let start = "{\"a\":1,\"b\":[2,3]}";
    for (change, at, expected) in [
        (Change::Set, "$.a", "{\"a\": 9, \"b\": [2, 3]}"),
        (Change::Set, "$.c", "{\"a\": 1, \"b\": [2, 3], \"c\": 9}"),
        (Change::Insert, "$.a", "{\"a\": 1, \"b\": [2, 3]}"),
        (Change::Insert, "$.c", "{\"a\": 1, \"b\": [2, 3], \"c\": 9}"),
        (Change::Replace, "$.a", "{\"a\": 9, \"b\": [2, 3]}"),
        (Change::Replace, "$.c", "{\"a\": 1, \"b\": [2, 3]}"),
        (Change::Set, "$.b[0]", "{\"a\": 1, \"b\": [9, 3]}"),
        (Change::Set, "$.b[7]", "{\"a\": 1, \"b\": [2, 3, 9]}"),
        (Change::Set, "$.b[last-7]", "{\"a\": 1, \"b\": [9, 2, 3]}"),
        (Change::Set, "$.a[0]", "{\"a\": 9, \"b\": [2, 3]}"),
        (Change::Set, "$.a[1]", "{\"a\": [1, 9], \"b\": [2, 3]}"),
        (Change::Set, "$.x.y", "{\"a\": 1, \"b\": [2, 3]}"),
        (Change::Set, "$", "9"),
        (Change::Insert, "$", "{\"a\": 1, \"b\": [2, 3]}"),
    ] {
        let mut value = json(start);
        value.change(&path(at), Json::Int(9), change);
        assert_eq!(value.to_text(), expected, "{change:?} {at}");
    }
    let mut value = json(start);
    assert!(
        value.remove(&path("$.b[0]")) && value.remove(&path("$.a")) && value.remove(&path("$.z"))
    );
    assert_eq!(value.to_text(), "{\"b\": [3]}");
    assert!(!value.remove(&path("$")));
    value.append(&path("$.b"), Json::Int(4));
    value.append(&path("$.b[0]"), Json::Int(5));
    assert_eq!(value.to_text(), "{\"b\": [[3, 5], 4]}");
    assert!(value.insert_cell(&path("$.b[1]"), Json::Null));
    assert!(value.insert_cell(&path("$.b[99]"), Json::Bool(true)));
    assert_eq!(value.to_text(), "{\"b\": [[3, 5], null, 4, true]}");
    assert!(!value.insert_cell(&path("$.b"), Json::Null));
}

#[test]
fn merging() {
    for (a, b, preserved, patched) in [
        ("[1, 2]", "[true]", "[1, 2, true]", "[true]"),
        ("{\"a\":1}", "{\"a\":3,\"b\":4}", "{\"a\": [1, 3], \"b\": 4}", "{\"a\": 3, \"b\": 4}"),
        ("1", "2", "[1, 2]", "2"),
        ("[1]", "{\"a\":2}", "[1, {\"a\": 2}]", "{\"a\": 2}"),
        ("{\"a\":1}", "[2]", "[{\"a\": 1}, 2]", "[2]"),
        ("{\"a\":1,\"b\":2}", "{\"b\":null}", "{\"a\": 1, \"b\": [2, null]}", "{\"a\": 1}"),
        (
            "{\"a\":{\"x\":1}}",
            "{\"a\":{\"y\":2}}",
            "{\"a\": {\"x\": 1, \"y\": 2}}",
            "{\"a\": {\"x\": 1, \"y\": 2}}",
        ),
        ("1", "{\"a\":{\"b\":null}}", "[1, {\"a\": {\"b\": null}}]", "{\"a\": {}}"),
    ] {
        assert_eq!(json(a).merge_preserve(json(b)).to_text(), preserved, "{a} {b}");
        assert_eq!(json(a).merge_patch(json(b)).to_text(), patched, "{a} {b}");
    }
}

#[test]
fn containing_and_overlapping() {
    for (a, b, contains, overlaps) in [
        ("{\"a\":1,\"b\":2}", "{\"a\":1}", true, true),
        ("{\"a\":1}", "{\"a\":1,\"b\":2}", false, true),
        ("[1,2,[3]]", "[1,[3]]", true, true),
        ("[1,2]", "2", true, true),
        ("[[1,2]]", "1", false, false),
        ("1", "1.0", true, true),
        ("\"a\"", "\"A\"", false, false),
        ("[1,2]", "[3,1]", false, true),
        ("{\"a\":1}", "[1]", false, false),
        ("{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1}}", true, false),
    ] {
        assert_eq!(json(a).contains(&json(b)), contains, "{a} contains {b}");
        assert_eq!(json(a).overlaps(&json(b)), overlaps, "{a} overlaps {b}");
    }
}

#[test]
fn searching() {
    let value = json("[\"abc\", [{\"k\":\"10\"}, \"def\"], {\"x\":\"abc\"}, {\"y z\":\"bcd\"}]");
    let search = |pattern, only_first, paths: &[&str]| {
        let paths: Vec<JsonPath> = paths.iter().map(|text| path(text)).collect();
        value.search(pattern, Some('\\'), only_first, &paths).map(|found| found.to_text())
    };
    assert_eq!(search("abc", true, &[]).unwrap(), "\"$[0]\"");
    assert_eq!(search("abc", false, &[]).unwrap(), "[\"$[0]\", \"$[2].x\"]");
    assert_eq!(search("ghi", false, &[]), None);
    assert_eq!(search("10", false, &["$[1][0]"]).unwrap(), "\"$[1][0].k\"");
    assert_eq!(
        search("%b%", false, &["$[2]", "$[3]"]).unwrap(),
        "[\"$[2].x\", \"$[3].\\\"y z\\\"\"]"
    );
    assert_eq!(search("ABC", false, &[]), None);
}

/// Members were inserted one by one, each moving all behind it.
#[test]
fn an_object_of_many_members_in_any_order_takes_no_long_time() {
    let name = |at: u64| format!("{:08}", at * 7_919 % 100_003);
    let all = Json::object((0..200_000).map(|at| (name(at), Json::UInt(at))));
    let Json::Object(members) = &all else { panic!("an object") };
    assert_eq!(members.len(), 100_003);
    assert!(members.is_sorted_by(|(a, _), (b, _)| a < b));
    // Of two with one name the last counts.
    assert_eq!(all.member(&name(5)), Some(&Json::UInt(5 + 100_003)));
}
