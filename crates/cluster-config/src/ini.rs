//! The format of `config.ini`: sections, keys and values as text, with their lines.
//!
//! # Owns
//! What bytes are taken for a section, a key, a comment, a quoted value.
//! # Guarantees
//! Any bytes give sections and problems, never a panic, and no more memory than a small multiple of
//! the limits below.
//! # Not here
//! Which keys there are: `parameter`. What values mean: `value`.

use std::fmt;

use crate::problem::{Problems, quoted};

/// What a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionKind {
    /// `[cluster]`, NDB's `[system]`: the cluster as a whole.
    Cluster,
    /// `[computer]`: a host by a name of its own.
    Computer,
    /// `[ndb_mgmd]`, `[mgm]`: a management node.
    Management,
    /// `[ndbd]`, `[db]`: a data node.
    Data,
    /// `[mysqld]`: an SQL node.
    Sql,
    /// `[api]`: any other client of the data nodes.
    Api,
    /// `[tcp]`: a connection by TCP.
    Tcp,
    /// `[shm]`: a connection by shared memory.
    SharedMemory,
}

impl SectionKind {
    /// The name in a canonical text and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            SectionKind::Cluster => "cluster",
            SectionKind::Computer => "computer",
            SectionKind::Management => "ndb_mgmd",
            SectionKind::Data => "ndbd",
            SectionKind::Sql => "mysqld",
            SectionKind::Api => "api",
            SectionKind::Tcp => "tcp",
            SectionKind::SharedMemory => "shm",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<SectionKind> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

impl fmt::Display for SectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A line `key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) line: u32,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A section and what stands below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) line: u32,
    pub(crate) kind: SectionKind,
    /// Whether it speaks for all sections of its kind.
    pub(crate) default: bool,
    pub(crate) entries: Vec<Entry>,
}

/// Takes a file apart. What cannot be understood is a problem and is left out.
pub(crate) fn read(bytes: &[u8], problems: &mut Problems) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    if bytes.len() > FILE_SIZE_MAX {
        let limit = FILE_SIZE_MAX >> 20;
        problems.add(None, format!("the file has {} bytes; the limit is {limit}M", bytes.len()));
        return sections;
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        problems.add(None, "the file is UTF-16; save it as UTF-8");
        return sections;
    }
    let bytes = bytes.strip_prefix(&[0xEF, 0xBB, 0xBF]).unwrap_or(bytes);
    // Entries below a header that could not be read belong nowhere and are no problem of their own.
    let mut lost = false;
    for (line, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let Some(text) = text_of(line, bytes, problems) else { continue };
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let header = header(rest);
            lost = header.is_err();
            match header {
                Ok((kind, default)) => {
                    sections.push(Section { line, kind, default, entries: Vec::new() });
                }
                Err(why) => problems.add(line, why),
            }
            continue;
        }
        match (entry(line, text), sections.last_mut()) {
            _ if lost => {}
            (Ok(entry), Some(section)) => section.entries.push(entry),
            (Ok(entry), None) => {
                let key = quoted(&entry.key);
                problems.add(line, format!("`{key}` stands before any section, as in [ndbd]"));
            }
            (Err(why), _) => problems.add(line, why),
        }
    }
    sections
}

/// A line as text, unless it is none.
fn text_of<'a>(line: u32, bytes: &'a [u8], problems: &mut Problems) -> Option<&'a str> {
    if bytes.len() > LINE_SIZE_MAX {
        let limit = LINE_SIZE_MAX >> 10;
        problems.add(line, format!("the line has {} bytes; the limit is {limit}K", bytes.len()));
        return None;
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        problems.add(line, "the line is not UTF-8 text");
        return None;
    };
    let text = text.strip_suffix('\r').unwrap_or(text);
    if let Some(char) = text.chars().find(|char| char.is_control() && *char != '\t') {
        let code = u32::from(char);
        problems.add(line, format!("the line has a control character (U+{code:04X}); remove it"));
        return None;
    }
    Some(text)
}

/// What stands behind the opening bracket of a header.
fn header(rest: &str) -> Result<(SectionKind, bool), String> {
    let Some((inside, behind)) = rest.split_once(']') else {
        return Err("a section ends with `]`, as in [ndbd default]".into());
    };
    let behind = behind.trim();
    if !behind.is_empty() && !behind.starts_with(['#', ';']) {
        let behind = quoted(behind);
        return Err(format!("`{behind}` stands behind a section's name; put it on its own line"));
    }
    let words: Vec<String> = inside.split_whitespace().map(str::to_ascii_lowercase).collect();
    let (name, default) = match &words[..] {
        [name] => (name, false),
        [name, word] if word == "default" => (name, true),
        _ => return Err(format!("[{}] is not a section; {KNOWN}", quoted(inside))),
    };
    match SectionKind::parse(name) {
        // There is one of it, so it needs no default.
        Some(SectionKind::Cluster) if default => Err("write [cluster] without `default`".into()),
        Some(kind) => Ok((kind, default)),
        None if name == "sci" => Err("[sci] has been removed, in NDB too; use [tcp]".into()),
        None => Err(format!("[{}] is not a section; {KNOWN}", quoted(inside))),
    }
}

fn entry(line: u32, text: &str) -> Result<Entry, String> {
    let Some((key, value)) = text.split_once(['=', ':']) else {
        return Err(format!("`{}` is neither `key=value` nor a section", quoted(text)));
    };
    let key = key.trim_end();
    if key.is_empty() {
        return Err("a value without a key; write `key=value`".into());
    }
    let value = unquoted(value.trim()).map_err(|()| {
        format!("`{}` has a quotation mark that is not closed at the end", quoted(key))
    })?;
    Ok(Entry { line, key: key.into(), value: value.into() })
}

/// A value without its comment, and without quotation marks around it.
fn unquoted(value: &str) -> Result<&str, ()> {
    let mark = value.chars().next().filter(|char| matches!(char, '"' | '\''));
    if let Some(mark) = mark {
        let (inside, behind) = value[1..].split_once(mark).ok_or(())?;
        let behind = behind.trim();
        return if behind.is_empty() || behind.starts_with(['#', ';']) {
            Ok(inside)
        } else {
            Err(())
        };
    }
    // A comment stands apart from the value, so that a path may have such characters in it.
    let mut end = value.len();
    let mut after_space = true;
    for (at, char) in value.char_indices() {
        if after_space && matches!(char, '#' | ';') {
            end = at;
            break;
        }
        after_space = char.is_whitespace();
    }
    Ok(value[..end].trim_end())
}

/// A value as a file has to say it, so that reading gives it back.
pub(crate) fn quote(value: &str) -> String {
    if unquoted(value) == Ok(value) && value.trim() == value {
        return value.to_string();
    }
    let mark = if value.contains('"') { '\'' } else { '"' };
    format!("{mark}{value}{mark}")
}

const NAMES: &[(&str, SectionKind)] = &[
    ("ndbd", SectionKind::Data),
    ("db", SectionKind::Data),
    ("ndb_mgmd", SectionKind::Management),
    ("mgm", SectionKind::Management),
    ("mysqld", SectionKind::Sql),
    ("mysql", SectionKind::Sql),
    ("api", SectionKind::Api),
    ("tcp", SectionKind::Tcp),
    ("shm", SectionKind::SharedMemory),
    ("computer", SectionKind::Computer),
    ("cluster", SectionKind::Cluster),
    ("system", SectionKind::Cluster),
];

const KNOWN: &str = "known are [ndbd], [ndb_mgmd], [mysqld], [api], [tcp], [shm], [computer], \
    each also as [… default], and [cluster]";

/// Bytes of a file: a thousand times a large configuration.
pub const FILE_SIZE_MAX: usize = 4 << 20;

/// Bytes of a line.
pub(crate) const LINE_SIZE_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests;
