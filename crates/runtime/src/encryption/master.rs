//! Master keys, and where they come from: a file, a command, the environment.
//!
//! # Guarantees
//! A file that others than its owner may use is refused, and so is a command that fails or takes
//! too long. No key is ever printed: a name of sixteen digits, derived from the key, stands for it.

use std::fmt;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::{KEY, derive};
use crate::tls::{hex, read_key, unhex};

/// The variable of the environment that may hold a key.
pub(super) const VARIABLE: &str = "NINES_ENCRYPTION_KEY";
/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long its output may take to end after it.
const LEFTOVER: Duration = Duration::from_secs(5);
/// How often it is looked whether a command has ended.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes that a command may print, and master keys that a source may have.
const OUTPUT_MAX: u64 = 64 << 10;
const KEYS_MAX: usize = 100;

/// Where master keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// A file, which nobody but its owner may read.
    File(PathBuf),
    /// What a command of the shell prints, as from a key management service.
    Command(String),
    /// The variable `NINES_ENCRYPTION_KEY`.
    Environment,
}

/// Master keys, as a source has them: the first wraps, the others only open what they have wrapped
/// before.
#[derive(Clone)]
pub struct MasterKeys {
    source: KeySource,
    keys: Vec<MasterKey>,
}

/// A master key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct MasterKey([u8; KEY]);

/// What a master key is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyName(pub(super) [u8; 8]);

impl KeySource {
    /// The source that was named, or the environment, if the variable is there.
    pub fn choose(
        file: Option<PathBuf>,
        command: Option<String>,
    ) -> Result<Option<KeySource>, String> {
        match (file, command) {
            (Some(_), Some(_)) => {
                Err("the key comes from a file or from a command, not from both".into())
            }
            (Some(file), None) => Ok(Some(KeySource::File(file))),
            (None, Some(command)) => Ok(Some(KeySource::Command(command))),
            (None, None) => {
                Ok(std::env::var_os(VARIABLE).is_some().then_some(KeySource::Environment))
            }
        }
    }

    /// Reads the keys.
    pub fn read(&self) -> Result<MasterKeys, String> {
        let text = match self {
            KeySource::File(path) => read_key(path)?,
            KeySource::Command(command) => {
                output(command).map_err(|why| format!("{self}: {why}"))?
            }
            KeySource::Environment => {
                std::env::var(VARIABLE).map_err(|_| format!("{VARIABLE} is not set to a text"))?
            }
        };
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let keys: Option<Vec<MasterKey>> = lines.map(MasterKey::parse).collect();
        let keys = keys.ok_or_else(|| {
            format!(
                "{self} has a line that is no key: 32 random bytes are wanted, as 64 hexadecimal \
                 digits (openssl rand -hex 32) or as base64"
            )
        })?;
        if keys.is_empty() {
            return Err(format!("{self} has no key in it"));
        }
        if keys.len() > KEYS_MAX {
            return Err(format!("{self} has {} keys; {KEYS_MAX} are the most", keys.len()));
        }
        Ok(MasterKeys { source: self.clone(), keys })
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => write!(f, "{}", path.display()),
            KeySource::Command(command) => write!(f, "the command `{command}`"),
            KeySource::Environment => f.write_str(VARIABLE),
        }
    }
}

impl MasterKeys {
    /// The key that wraps.
    pub(super) fn newest(&self) -> &MasterKey {
        self.keys.first().expect("there is one at least")
    }

    /// What the key that wraps is called.
    pub fn newest_name(&self) -> String {
        self.newest().name().to_string()
    }

    /// Where they came from.
    pub fn source(&self) -> &KeySource {
        &self.source
    }

    /// Keys of these bytes, as if from a command.
    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let keys = bytes.iter().map(|byte| MasterKey([*byte; KEY])).collect();
        Self { source: KeySource::Command("test".into()), keys }
    }

    pub(super) fn find(&self, name: KeyName) -> Option<&MasterKey> {
        self.keys.iter().find(|key| key.name() == name)
    }

    /// What all of them are called.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self.keys.iter().map(|key| key.name().to_string()).collect();
        names.join(", ")
    }
}

impl fmt::Display for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKeys({}: {})", self.source, self.names())
    }
}

impl MasterKey {
    pub(super) fn bytes(&self) -> &[u8; KEY] {
        &self.0
    }

    pub(super) fn name(&self) -> KeyName {
        let derived = derive(&self.0, b"", b"nines name of a master key, 1");
        KeyName(derived[..8].try_into().expect("eight of them"))
    }

    /// A key as text: hexadecimal digits, or base64.
    fn parse(text: &str) -> Option<MasterKey> {
        let bytes = if text.len() == KEY * 2 { unhex(text)? } else { base64(text)? };
        bytes.try_into().ok().map(MasterKey)
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    let mut out = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // What is left over fills up the last character, with zeros.
    (bits == 0 && count < 6).then_some(out)
}

/// What a command prints.
fn output(command: &str) -> Result<String, String> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run it: {error}"))?;
    let printed = child.stdout.take().map(gather).ok_or("it has no output")?;
    let complaints = child.stderr.take().map(gather).ok_or("it has no output for errors")?;
    let ended = wait(&mut child)?;
    if !ended.success() {
        let text = complaints.recv_timeout(LEFTOVER).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let why = text.lines().next().unwrap_or_default();
        return Err(format!("it has failed ({ended}): {why}"));
    }
    let text = printed.recv_timeout(LEFTOVER).map_err(|_| "what it prints has no end")?;
    String::from_utf8(text).map_err(|_| "it prints something that is no text".into())
}

/// Reads on a thread: a command may leave something behind that keeps its output open.
fn gather(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (send, gathered) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What has come so far counts.
        let _ = from.take(OUTPUT_MAX).read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    gathered
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(ended)) => return Ok(ended),
            Ok(None) if Instant::now() < until => thread::sleep(LOOK),
            Ok(None) => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it has not ended in {} seconds", PATIENCE.as_secs()));
            }
            Err(error) => return Err(format!("cannot wait for it: {error}")),
        }
    }
}
