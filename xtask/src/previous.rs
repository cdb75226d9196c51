//! An earlier version of the program, for tests that run two versions in one cluster.
//!
//! # Owns
//! Which commit it is, and the folder outside the clone where programs are kept by their commit.
//! # How
//! Candidates are the commits before this one whose sources differ. One whose program is kept is
//! taken before one that must be built, so that a machine that tests every change builds none: it
//! keeps what it has tested. Others are built from `git archive`, which leaves the clone alone, in
//! a target folder of their own: Cargo gives crates of two copies of a workspace the same names.
//! # Failure
//! Where there is none (the first commit, a clone without history) the reason is told, and tests
//! of two versions are skipped.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::workspace::{cargo, said};

/// The variable by which the tests find the program.
pub(crate) const VARIABLE: &str = "NINES_PREVIOUS";

/// What the program is made of.
const SOURCES: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];
/// What its messages look like.
const MESSAGES: &str = "docs/reference/wire-format.txt";
/// How far back it is looked.
const COMMITS: &str = "--max-count=40";
/// Programs that are kept.
const KEPT: usize = 4;

/// Programs by commit: a folder for each, with the program and what its messages look like.
struct Kept(PathBuf);

impl Kept {
    fn folder(&self, commit: &str) -> PathBuf {
        self.0.join(commit)
    }

    fn program(&self, commit: &str) -> PathBuf {
        self.folder(commit).join("nines")
    }

    fn has(&self, commit: &str) -> bool {
        self.program(commit).exists()
    }

    /// Puts a program there; the oldest go.
    fn keep(&self, commit: &str, program: &Path, messages: &str) -> io::Result<()> {
        let folder = self.folder(commit);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("wire-format.txt"), messages)?;
        // Its name is there only when all of it is.
        let half = folder.join("nines.half");
        fs::copy(program, &half)?;
        fs::rename(&half, self.program(commit))?;
        for commit in self.newest_first().iter().skip(KEPT) {
            fs::remove_dir_all(self.folder(commit))?;
        }
        Ok(())
    }

    fn newest_first(&self) -> Vec<String> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let commit = entry.file_name().to_string_lossy().into_owned();
            if let Ok(of_program) = fs::metadata(self.program(&commit)) {
                all.push((of_program.modified().ok(), commit));
            }
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, commit)| commit).collect()
    }
}

/// Keeps the program that was just built of this work tree for later commits, if it is that of a
/// commit.
///
/// # Errors
/// Why it cannot be kept.
pub(crate) fn keep(root: &Path, environment: &[(&str, String)]) -> Result<(), String> {
    if differs(root, "HEAD") {
        return Ok(());
    }
    let kept = Kept(folder(root, |key| env::var(key).ok()));
    let head = git(root, &["rev-parse", "HEAD"])?;
    let now = fs::read_to_string(root.join(MESSAGES)).map_err(|error| error.to_string())?;
    let own = target(root, environment).join("ci/nines");
    kept.keep(&head, &own, &now).map_err(|error| format!("{}: {error}", own.display()))
}

/// Finds or builds an earlier program.
///
/// # Errors
/// Why there is none.
pub(crate) fn program(root: &Path, environment: &[(&str, String)]) -> Result<PathBuf, String> {
    let kept = Kept(folder(root, |key| env::var(key).ok()));
    let head = git(root, &["rev-parse", "HEAD"])?;
    let now = fs::read_to_string(root.join(MESSAGES)).map_err(|error| error.to_string())?;
    let history = git(root, &["rev-list", "--first-parent", COMMITS, "HEAD"])?;
    let earlier: Vec<&str> = history.lines().filter(|commit| differs(root, commit)).collect();
    let shallow = git(root, &["rev-parse", "--is-shallow-repository"])? == "true";
    let orphans = if shallow { kept.newest_first() } else { Vec::new() };
    let orphans = orphans.iter().map(String::as_str).filter(|commit| *commit != head);
    let Some(commit) = choose(&earlier, orphans, |commit| kept.has(commit)) else {
        let advice = if shallow { "; the clone is shallow, fetch more of it" } else { "" };
        return Err(format!("no earlier commit with another program is known{advice}"));
    };
    if !kept.has(commit) {
        build(root, &kept, commit, environment)?;
    }
    let before = fs::read_to_string(kept.folder(commit).join("wire-format.txt"));
    let before = before.map_err(|error| format!("of {commit} it is not known: {error}"))?;
    let released = !git(root, &["tag", "--list", "v*"])?.is_empty();
    if !released && !has_all(&before, &now) {
        return Err(format!(
            "messages have changed in place since {commit}, as they may before the first release"
        ));
    }
    println!("two versions in one cluster: this one and {commit}");
    Ok(kept.program(commit))
}

/// The commit whose program is taken: of those before this one the newest that is kept, or else the
/// newest of all; where there are none, one that is kept of a history that is not here.
fn choose<'a>(
    earlier: &[&'a str],
    mut orphans: impl Iterator<Item = &'a str>,
    is_kept: impl Fn(&str) -> bool,
) -> Option<&'a str> {
    let there = earlier.iter().find(|commit| is_kept(commit));
    there.or(earlier.first()).copied().or_else(|| orphans.next())
}

/// Whether later messages have all that earlier ones had, whatever their version is called.
fn has_all(before: &str, now: &str) -> bool {
    let of_messages = |line: &&str| !line.starts_with("Protocol version ");
    let mut rest = now.lines();
    before.lines().filter(of_messages).all(|line| rest.any(|later| later == line))
}

fn build(
    root: &Path,
    kept: &Kept,
    commit: &str,
    environment: &[(&str, String)],
) -> Result<(), String> {
    let source = kept.0.join("source");
    let failed = |error: io::Error| format!("{}: {error}", source.display());
    if source.exists() {
        fs::remove_dir_all(&source).map_err(failed)?;
    }
    fs::create_dir_all(&source).map_err(failed)?;
    println!("$ git archive {commit} | tar --extract --touch");
    let mut archive = Command::new("git");
    archive.args(["archive", "--format=tar", commit]).current_dir(root).stdout(Stdio::piped());
    let mut archive = archive.spawn().map_err(|error| format!("git: {error}"))?;
    let pipe = archive.stdout.take().ok_or("git archive has no output")?;
    // As if written now: Cargo compares times, and an older commit must not look unchanged.
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--touch", "--directory"]).arg(&source).stdin(pipe);
    let unpacked = tar.status().map_err(|error| format!("tar: {error}"))?;
    let archived = archive.wait().map_err(|error| format!("git archive: {error}"))?;
    if !unpacked.success() || !archived.success() {
        return Err(format!("the sources of {commit} cannot be unpacked"));
    }
    let target = kept.0.join("target");
    println!("$ cargo build -p nines --profile ci (of {commit})");
    let mut cargo = Command::new(cargo());
    cargo.args(["build", "--quiet", "-p", "nines", "--profile", "ci"]).current_dir(&source);
    cargo.envs(environment.iter().map(|(key, value)| (key, value)));
    cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "0");
    let built = cargo.status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err(format!("{commit} cannot be built any more"));
    }
    let messages = fs::read_to_string(source.join(MESSAGES)).map_err(failed)?;
    kept.keep(commit, &target.join("ci/nines"), &messages).map_err(failed)
}

/// Where programs are kept.
fn folder(root: &Path, get: impl Fn(&str) -> Option<String>) -> PathBuf {
    match get("HOME") {
        Some(home) => Path::new(&home).join(".cache/nines/previous"),
        None => root.join("target/previous"),
    }
}

/// Where this workspace is built.
pub(crate) fn target(root: &Path, environment: &[(&str, String)]) -> PathBuf {
    let chosen = environment.iter().find(|(key, _)| *key == "CARGO_TARGET_DIR");
    let chosen = chosen.map(|(_, value)| value.clone());
    let chosen = chosen.or_else(|| env::var("CARGO_TARGET_DIR").ok());
    chosen.map_or_else(|| root.join("target"), PathBuf::from)
}

/// Whether what is in the work tree makes another program than a commit.
fn differs(root: &Path, commit: &str) -> bool {
    let mut diff = Command::new("git");
    diff.args(["diff", "--quiet", commit, "--"]).args(SOURCES).current_dir(root);
    !diff.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let text = said(Command::new("git").args(arguments).current_dir(root))?;
    Ok(text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_taken_before_what_must_be_built() {
        let chosen = |earlier: &[&'static str], orphans: &[&'static str], kept: &str| {
            choose(earlier, orphans.iter().copied(), |commit| commit == kept)
        };
        assert_eq!(chosen(&["c", "b", "a"], &[], "b"), Some("b"));
        assert_eq!(chosen(&["c", "b", "a"], &["z"], "z"), Some("c"));
        assert_eq!(chosen(&[], &["z", "y"], "z"), Some("z"));
        assert_eq!(chosen(&[], &[], "z"), None);
    }

    #[test]
    fn messages_may_be_added_to() {
        assert!(has_all("a\nb\n", "a\nnew\nb\nnew\n"));
        assert!(has_all("Protocol version 1.\na\n", "Protocol version 2.\na\nb, since 2\n"));
        assert!(!has_all("a\nb\n", "a\nb since 2\n"));
        assert!(!has_all("a\nb\n", "b\na\n"), "their order is part of them");
    }

    #[test]
    fn the_oldest_programs_go() {
        let base = env::temp_dir().join(format!("nines-previous-{}", std::process::id()));
        let kept = Kept(base.join("kept"));
        let program = base.join("program");
        fs::create_dir_all(&base).unwrap();
        fs::write(&program, "1").unwrap();
        for (number, commit) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
            kept.keep(commit, &program, "messages").unwrap();
            // Copies are as old as we say, however coarse the clock of the file system.
            let file = fs::File::options().append(true).open(kept.program(commit)).unwrap();
            let hour = std::time::Duration::from_secs(3_600 * number as u64);
            file.set_modified(std::time::UNIX_EPOCH + hour).unwrap();
        }
        kept.keep("f", &program, "messages").unwrap();
        assert_eq!(kept.newest_first(), ["f", "e", "d", "c"]);
        assert!(kept.has("f") && !kept.has("a"));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn programs_are_kept_outside_the_clone_where_there_is_a_home() {
        let home = |key: &str| (key == "HOME").then(|| "/h".to_string());
        assert_eq!(folder(Path::new("/clone"), home), Path::new("/h/.cache/nines/previous"));
        assert_eq!(folder(Path::new("/clone"), |_| None), Path::new("/clone/target/previous"));
    }
}
