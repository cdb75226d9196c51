//! Reads Rust text just well enough for line rules: what is code, what is comment, what is string.
//!
//! # Owns
//! Three views of a file with equal offsets: code alone, code with strings, comments alone.
//! # Not here
//! A parser. The rules look at names and brackets; a syntax tree would cost more than it gives.

use std::ops::Range;

/// A Rust file, seen three ways. All views have the length and the line breaks of the file.
pub(super) struct RustSource {
    /// Neither comments nor the contents of strings.
    pub(super) code: String,
    /// No comments.
    pub(super) code_with_strings: String,
    /// Nothing but comments.
    pub(super) comments: String,
}

/// One name that a `use` declaration brings into a file.
pub(super) struct Import {
    /// The offset of the declaration.
    pub(super) at: usize,
    /// What is imported, as written; ends in `::self` or `::*` where the declaration does.
    pub(super) path: String,
    /// The name that the file has for it.
    pub(super) name: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Text,
    Comment,
}

impl RustSource {
    pub(super) fn new(source: &str) -> RustSource {
        let kinds = classify(source.as_bytes());
        let view = |keep: &[Kind]| {
            let bytes = source
                .bytes()
                .zip(&kinds)
                .map(|(byte, kind)| if byte == b'\n' || keep.contains(kind) { byte } else { b' ' });
            String::from_utf8(bytes.collect()).expect("a region is kept or blanked as a whole")
        };
        RustSource {
            code: view(&[Kind::Code]),
            code_with_strings: view(&[Kind::Code, Kind::Text]),
            comments: view(&[Kind::Comment]),
        }
    }

    /// Blanks the items that only tests compile.
    pub(super) fn without_tests(mut self) -> RustSource {
        for marker in ["#[cfg(test)]", "#[cfg(all(test"] {
            while let Some(start) = self.code.find(marker) {
                let end = item_end(&self.code, start);
                self.blank(start..end);
            }
        }
        self
    }

    /// Blanks the definitions of macros: what they name, they do not use.
    pub(super) fn without_macro_definitions(mut self) -> RustSource {
        while let Some(start) = self.code.find("macro_rules!") {
            let end = item_end(&self.code, start);
            self.blank(start..end);
        }
        self
    }

    fn blank(&mut self, range: Range<usize>) {
        for view in [&mut self.code, &mut self.code_with_strings, &mut self.comments] {
            let blanked: String = view[range.clone()]
                .bytes()
                .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
                .collect();
            view.replace_range(range.clone(), &blanked);
        }
    }

    /// Every path that the file's `use` declarations import, with its line, trees spelled out.
    pub(super) fn imports(&self) -> Vec<(usize, String)> {
        let imports = self.named_imports().into_iter();
        imports.map(|import| (line_of(&self.code, import.at), import.path)).collect()
    }

    /// The same with the names that the declarations give to what they import.
    pub(super) fn named_imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        for range in self.use_declarations() {
            let text = &self.code[range.start + "use".len()..range.end - 1];
            let tree: String = text.replace(" as ", "@").split_whitespace().collect();
            let mut paths = Vec::new();
            spell_out("", &tree, &mut paths);
            for (path, alias) in paths {
                let last = path.trim_end_matches("::self").rsplit("::").next().unwrap_or_default();
                let name = alias.unwrap_or_else(|| last.to_string());
                found.push(Import { at: range.start, path, name });
            }
        }
        found
    }

    /// Blanks the `use` declarations.
    pub(super) fn without_imports(mut self) -> RustSource {
        for range in self.use_declarations() {
            self.blank(range);
        }
        self
    }

    /// Where the `use` declarations are, each with its semicolon.
    fn use_declarations(&self) -> Vec<Range<usize>> {
        let starts = find_words(&self.code, "use").into_iter();
        let declaration = |start: usize| {
            let rest = &self.code[start + "use".len()..];
            let length = rest.starts_with(char::is_whitespace).then(|| rest.find(';'))??;
            Some(start..start + "use".len() + length + 1)
        };
        starts.filter_map(declaration).collect()
    }

    /// The text of each call of a macro, with its line. Brackets of any kind, any number of lines.
    pub(super) fn macro_calls(&self, name: &str) -> Vec<(usize, &str)> {
        let mut found = Vec::new();
        for start in find_words(&self.code, name) {
            let after = start + name.len();
            let rest = &self.code[after..];
            let Some(open) = rest.strip_prefix('!').and_then(|r| r.find(|c: char| c != ' ')) else {
                continue;
            };
            let open = after + 1 + open;
            if matches!(self.code.as_bytes()[open], b'(' | b'[' | b'{') {
                let end = closing(&self.code, open);
                found.push((line_of(&self.code, start), &self.code_with_strings[open..end]));
            }
        }
        found
    }
}

/// The line of an offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Offsets where `word` stands alone, not as part of a longer identifier.
pub(super) fn find_words(text: &str, word: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let inside = |at: usize| bytes.get(at).is_some_and(|byte| is_identifier(*byte));
    text.match_indices(word)
        .map(|(start, _)| start)
        .filter(|start| *start == 0 || !inside(*start - 1))
        .filter(|start| !inside(*start + word.len()))
        .collect()
}

/// The contents of the string literals in a piece of code, escapes resolved.
pub(super) fn string_literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '"' {
            continue;
        }
        let mut literal = String::new();
        while let Some(char) = chars.next() {
            match char {
                '"' => break,
                '\\' => match chars.next() {
                    Some('n') => literal.push('\n'),
                    Some('\n') => while chars.next_if(|next| next.is_whitespace()).is_some() {},
                    Some(other) => literal.push(other),
                    None => break,
                },
                other => literal.push(other),
            }
        }
        found.push(literal);
    }
    found
}

pub(super) fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn classify(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let after_identifier = at > 0 && is_identifier(bytes[at - 1]);
        let (kind, length) = if rest.starts_with(b"//") {
            (Kind::Comment, rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()))
        } else if rest.starts_with(b"/*") {
            (Kind::Comment, block_comment(rest))
        } else if let (false, Some(length)) = (after_identifier, raw_string(rest)) {
            (Kind::Text, length)
        } else if rest[0] == b'"' {
            // The quotes stay visible as code, so that a rule sees that a string was there.
            let length = quoted(rest);
            kinds[at + 1..(at + length).saturating_sub(1)].fill(Kind::Text);
            (Kind::Code, length)
        } else if rest[0] == b'\'' {
            let length = character(rest);
            (if length > 1 { Kind::Text } else { Kind::Code }, length)
        } else {
            (Kind::Code, 1)
        };
        if kind != Kind::Code {
            kinds[at..at + length].fill(kind);
        }
        at += length;
    }
    kinds
}

fn block_comment(bytes: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn raw_string(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.iter().take_while(|byte| matches!(byte, b'b' | b'c')).count().min(1);
    let bytes_from_r = bytes[prefix..].strip_prefix(b"r")?;
    let hashes = bytes_from_r.iter().take_while(|byte| **byte == b'#').count();
    if bytes_from_r.get(hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = prefix + 1 + hashes + 1;
    let length = bytes[body..].windows(end.len()).position(|window| window == end);
    Some(length.map_or(bytes.len(), |length| body + length + end.len()))
}

fn quoted(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The length of a character literal, or 1 where the quote begins a lifetime.
fn character(bytes: &[u8]) -> usize {
    if bytes.get(1) == Some(&b'\\') {
        // The escaped character itself may be a quote.
        let close = bytes.iter().skip(3).position(|byte| *byte == b'\'');
        return close.map_or(1, |close| close + 4);
    }
    let width = match bytes.get(1) {
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        _ => 1,
    };
    if bytes.get(1 + width) == Some(&b'\'') { width + 2 } else { 1 }
}

/// Where the item that begins at `start` ends: behind its body, or behind its semicolon.
pub(super) fn item_end(code: &str, start: usize) -> usize {
    let bytes = code.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => return closing(code, at),
            b';' => return at + 1,
            b'(' | b'[' => at = closing(code, at),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The offset behind the bracket that closes the one at `open`.
pub(super) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// Spells out `a::{b, c::{d@e}}` as `a::b`, `a::c::d` with the alias `e`.
fn spell_out(prefix: &str, tree: &str, paths: &mut Vec<(String, Option<String>)>) {
    let Some(open) = tree.find('{') else {
        let (path, alias) = tree.split_once('@').map_or((tree, None), |(p, a)| (p, Some(a)));
        if !path.is_empty() {
            let path = format!("{prefix}{path}").trim_start_matches("::").to_string();
            paths.push((path, alias.map(str::to_string)));
        }
        return;
    };
    let prefix = format!("{prefix}{}", &tree[..open]);
    let inner = &tree[open + 1..closing(tree, open).saturating_sub(1).max(open + 1)];
    let mut depth = 0_usize;
    let mut start = 0;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                spell_out(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    spell_out(&prefix, &inner[start..], paths);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_code_strings_and_comments() {
        let text = "let a = \"x // y\"; // z\nlet c = '\"'; /* q /* r */ */ f::<'a>(r#\"s\"t\"#)";
        let source = RustSource::new(text);
        assert_eq!(source.code.len(), text.len());
        assert!(!source.code.contains('x') && !source.code.contains('z'));
        assert!(!source.code.contains('q') && !source.code.contains('r'));
        assert!(source.code.contains("f::<'a>("));
        assert!(source.code_with_strings.contains("x // y"));
        assert!(source.code_with_strings.contains("s\"t"));
        assert_eq!(source.comments.trim_start().split('\n').next(), Some("// z"));
    }

    #[test]
    fn a_quote_in_a_character_opens_no_string() {
        let source = RustSource::new(r"let (a, b) = ('\'', '\\'); seen()");
        assert!(source.code.contains("seen()"));
        assert!(RustSource::new("('é', b'\"', seen)").code.contains("seen"));
    }

    #[test]
    fn test_items_are_blanked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c([1]); } }\nfn d() {}\n";
        let source = RustSource::new(text).without_tests();
        assert!(source.code.contains("fn a()") && source.code.contains("fn d()"));
        assert!(!source.code.contains("fn b()"));
        let declared = RustSource::new("#[cfg(test)]\nmod tests;\nfn d() {}").without_tests();
        assert!(declared.code.contains("fn d()") && !declared.code.contains("mod"));
    }

    #[test]
    fn imports_are_spelled_out() {
        let source = RustSource::new("use std::{\n  fs::{self, File},\n  io as x,\n};\nuse a::B;");
        let paths: Vec<String> = source.imports().into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["std::fs::self", "std::fs::File", "std::io", "a::B"]);
        let names: Vec<String> = source.named_imports().into_iter().map(|i| i.name).collect();
        assert_eq!(names, ["fs", "File", "x", "B"]);
        assert!(!source.without_imports().code.contains("std"));
    }

    #[test]
    fn macro_calls_span_lines() {
        let text = "x!(1);\nprobe!(\n  ctx,\n  \"a (b\"\n);\nmy_probe!(2);";
        let source = RustSource::new(text);
        let calls = source.macro_calls("probe");
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].0, 2);
        assert_eq!(string_literals(calls[0].1), ["a (b"]);
    }

    #[test]
    fn literals_are_resolved() {
        assert_eq!(
            string_literals(
                r#"("a \"b\"", "c \
            d")"#
            ),
            ["a \"b\"", "c d"]
        );
    }
}
