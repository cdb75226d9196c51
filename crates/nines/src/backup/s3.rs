//! Backups in an object store that speaks Amazon's protocol S3.
//!
//! # Owns
//! [`Bucket`], a prefix of a bucket; objects that are written in parts and read by ranges.
//! # Guarantees
//! An object is there when all of it is, and not before. What was written has the size that it is
//! to have, or is an error. Keys are in no address and in no message.
//! # Not here
//! Requests and their repetition (`client`), what is in the objects (`format`).

mod answer;
mod client;
mod sign;

use std::io::{self, Read};
use std::sync::Arc;

pub(crate) use client::ObjectStore;
use client::{Answer, Asked, Client};

/// Bytes of a part of an object, of the first parts; later ones of a large object are larger, as
/// there may be 10,000.
const PART: usize = 8 << 20;
/// Bytes that are read at once.
const RANGE: u64 = 8 << 20;
/// The longest name of an object.
const KEY_MAX: usize = 900;

/// A prefix of a bucket.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    client: Arc<Client>,
    name: String,
    /// Without a `/` at its ends; empty for all of the bucket.
    prefix: String,
}

impl Bucket {
    /// What an address names behind `s3://`.
    ///
    /// # Errors
    /// For names that buckets and objects do not have, and for keys in the address.
    pub(super) fn open(address: &str, store: &ObjectStore) -> Result<Self, String> {
        let (name, prefix) = parsed(address)?;
        Ok(Self { client: Arc::new(Client::new(store)?), name, prefix })
    }

    pub(super) fn shown(&self) -> String {
        if self.prefix.is_empty() {
            format!("s3://{}", self.name)
        } else {
            format!("s3://{}/{}", self.name, self.prefix)
        }
    }

    pub(super) fn below(&self, name: &str) -> Self {
        Self { prefix: self.key(name), ..self.clone() }
    }

    fn key(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }

    fn asked<'a>(&'a self, method: &'a str, key: &'a str) -> Asked<'a> {
        Asked { method, bucket: &self.name, key, ..Asked::default() }
    }

    /// An answer that is not that something is missing.
    fn found(&self, asked: Asked<'_>) -> Result<Answer, String> {
        let answer = self.client.ask(asked)?;
        match answer.status {
            404 => Err(self.missing(&answer)),
            _ => Ok(answer),
        }
    }

    fn missing(&self, answer: &Answer) -> String {
        match answer::text(&answer.text(), "Code").as_deref() {
            Some("NoSuchBucket") => format!("s3://{}: there is no such bucket", self.name),
            _ => format!("{}: it is not there", self.shown()),
        }
    }

    /// The size of an object; none if it is not there.
    pub(super) fn size_of(&self, name: &str) -> Result<Option<u64>, String> {
        let key = self.key(name);
        let answer = match self.client.ask(self.asked("HEAD", &key)) {
            Ok(answer) => answer,
            // An answer to HEAD has no text: that to another request says why.
            Err(why) => return self.names().and(Err(why)),
        };
        match answer.status {
            404 => Ok(None),
            _ => {
                let cut = || format!("{}/{name}: the store tells no size", self.shown());
                answer.length.ok_or_else(cut).map(Some)
            }
        }
    }

    /// An object that is read, and its size; none if it is not there.
    pub(super) fn open_object(&self, name: &str) -> Result<Option<(Object, u64)>, String> {
        let Some(size) = self.size_of(name)? else {
            // Whoever names a bucket that is not there is to be told.
            self.names()?;
            return Ok(None);
        };
        let bucket = self.clone();
        let object = Object { bucket, key: self.key(name), size, at: 0, part: Vec::new(), read: 0 };
        Ok(Some((object, size)))
    }

    /// Whether there is nothing below the prefix.
    pub(super) fn is_empty(&self) -> Result<bool, String> {
        Ok(self.names()?.is_empty())
    }

    /// The names of all objects below the prefix, and of further prefixes with a `/`.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        let prefix = self.key("");
        let mut names = Vec::new();
        let mut token = String::new();
        loop {
            let mut query = vec![
                ("list-type", "2"),
                ("encoding-type", "url"),
                ("delimiter", "/"),
                ("prefix", &prefix),
            ];
            if !token.is_empty() {
                query.push(("continuation-token", &token));
            }
            let answer = self.found(Asked { query: &query, ..self.asked("GET", "") })?;
            let xml = answer.text();
            let objects = answer::texts(&xml, "Contents").into_iter();
            let keys = objects.filter_map(|of| answer::text(of, "Key"));
            let prefixes = answer::texts(&xml, "CommonPrefixes").into_iter();
            let prefixes = prefixes.filter_map(|of| answer::text(of, "Prefix"));
            for key in keys.chain(prefixes) {
                let key = answer::decoded(&key);
                let name = key.strip_prefix(&prefix).unwrap_or_default();
                if !name.is_empty() {
                    names.push(name.to_owned());
                }
            }
            match answer::text(&xml, "NextContinuationToken") {
                Some(next) if !next.is_empty() && next != token => token = next,
                _ => break,
            }
        }
        names.sort();
        Ok(names)
    }

    /// Begins an object.
    pub(super) fn upload(&self, name: &str) -> Upload {
        Upload {
            bucket: self.clone(),
            key: self.key(name),
            buffer: Vec::new(),
            id: None,
            parts: Vec::new(),
            is_ended: false,
        }
    }

    /// Writes an object that is not there: of two who write the same one at a time the first stays,
    /// where the store knows conditional writes (`If-None-Match`).
    pub(super) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let key = self.key(name);
        let taken = || format!("{}/{name}: it is there already", self.shown());
        // A store that does not know conditions may ignore them.
        if self.size_of(name)?.is_some() {
            return Err(taken());
        }
        let headers = [("if-none-match", "*")];
        let asked = Asked { headers: &headers, body: bytes, ..self.asked("PUT", &key) };
        let answer = self.client.ask(asked)?;
        match answer.status {
            404 => Err(self.missing(&answer)),
            // Another try may have written it, whose answer was lost.
            412 if self.found(self.asked("GET", &key))?.body == bytes => Ok(()),
            412 => Err(taken()),
            501 => self.put(&key, bytes),
            _ => self.check_size(&key, bytes.len() as u64),
        }
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), String> {
        self.found(Asked { body: bytes, ..self.asked("PUT", key) })?;
        self.check_size(key, bytes.len() as u64)
    }

    fn check_size(&self, key: &str, size: u64) -> Result<(), String> {
        let answer = self.found(self.asked("HEAD", key))?;
        match answer.length {
            Some(found) if found == size => Ok(()),
            Some(found) => Err(format!(
                "s3://{}/{key}: it was cut on its way: {found} bytes came, and not {size}",
                self.name
            )),
            None => Err(format!("s3://{}/{key}: the store tells no size", self.name)),
        }
    }

    /// Removes an object, if it is there.
    pub(super) fn remove(&self, name: &str) -> Result<(), String> {
        let key = self.key(name);
        self.client.ask(self.asked("DELETE", &key)).map(|_| ())
    }
}

/// The bucket and the prefix of an address.
fn parsed(address: &str) -> Result<(String, String), String> {
    if address.contains(['@', '?', '#', '&']) {
        return Err("an address is s3://BUCKET/PATH: keys do not belong into it, but into the \
                    environment of the SQL node or the file of BackupS3CredentialsFile"
            .to_owned());
    }
    let (name, prefix) = address.split_once('/').unwrap_or((address, ""));
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (3..=63).contains(&name.len())
        && name.bytes().all(|byte| is_plain(byte) || byte == b'-' || byte == b'.')
        && name.bytes().next().is_some_and(is_plain)
        && !name.contains("..");
    if !fits {
        return Err(format!("`{name}` is no name of a bucket: s3://BUCKET/PATH"));
    }
    let prefix = prefix.trim_end_matches('/');
    let is_name = |part: &str| !matches!(part, "" | "." | "..");
    if !prefix.is_empty() && !prefix.split('/').all(is_name)
        || prefix.len() > KEY_MAX
        || prefix.chars().any(char::is_control)
    {
        return Err(format!("s3://{address} has no path of plain names"));
    }
    Ok((name.to_owned(), prefix.to_owned()))
}

/// An object that is written: at once if it is small, else in parts. Dropped before its end nothing
/// of it is there.
pub(super) struct Upload {
    bucket: Bucket,
    key: String,
    buffer: Vec<u8>,
    /// Of one in parts.
    id: Option<String>,
    /// Sizes and tags.
    parts: Vec<(usize, String)>,
    is_ended: bool,
}

impl Upload {
    /// Bytes of the next part.
    fn part(&self) -> usize {
        match self.parts.len() {
            0..1_000 => PART,
            1_000..5_000 => 4 * PART,
            _ => 16 * PART,
        }
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let room = self.part() - self.buffer.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = rest;
            if self.buffer.len() == self.part() {
                self.send()?;
            }
        }
        Ok(())
    }

    /// Sends what is there as a part.
    fn send(&mut self) -> Result<(), String> {
        let id = match self.id.clone() {
            Some(id) => id,
            None => {
                let asked = Asked { query: &[("uploads", "")], ..self.asked("POST") };
                let answer = self.bucket.found(asked)?;
                let id = answer::text(&answer.text(), "UploadId");
                let id = id.ok_or_else(|| self.wrong("the store begins no upload in parts"))?;
                self.id.insert(id).clone()
            }
        };
        let number = (self.parts.len() + 1).to_string();
        let query = [("partNumber", number.as_str()), ("uploadId", &id)];
        let asked = Asked { query: &query, body: &self.buffer, ..self.asked("PUT") };
        let answer = self.bucket.found(asked)?;
        let tag = answer.etag.ok_or_else(|| self.wrong("the store gives no tag of a part"))?;
        self.parts.push((self.buffer.len(), tag));
        self.buffer.clear();
        Ok(())
    }

    fn asked<'a>(&'a self, method: &'a str) -> Asked<'a> {
        self.bucket.asked(method, &self.key)
    }

    fn wrong(&self, why: &str) -> String {
        format!("s3://{}/{}: {why}", self.bucket.name, self.key)
    }

    pub(super) fn end(&mut self) -> Result<(), String> {
        if self.id.is_none() {
            let bytes = std::mem::take(&mut self.buffer);
            self.bucket.put(&self.key, &bytes)?;
            self.is_ended = true;
            return Ok(());
        }
        if !self.buffer.is_empty() {
            self.send()?;
        }
        let id = self.id.clone().unwrap_or_default();
        let mut xml = "<CompleteMultipartUpload>".to_owned();
        for (at, (_, tag)) in self.parts.iter().enumerate() {
            let tag = tag.replace('&', "&amp;").replace('<', "&lt;");
            xml += &format!("<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", at + 1);
        }
        xml += "</CompleteMultipartUpload>";
        let query = [("uploadId", id.as_str())];
        let asked = Asked { query: &query, body: xml.as_bytes(), ..self.asked("POST") };
        let size = self.parts.iter().map(|(size, _)| *size as u64).sum();
        let answer = self.bucket.client.ask(asked)?;
        let text = answer.text();
        // The store may say only now that it could not; and a repeated request meets an upload
        // that is complete, whose size is looked at below.
        if answer.status != 404 && text.contains("<Error>") {
            let code = answer::text(&text, "Code").unwrap_or_default();
            return Err(self.wrong(&format!("the store does not complete it: {code}")));
        }
        self.is_ended = true;
        let checked = self.bucket.check_size(&self.key, size);
        if checked.is_err() {
            // It is not what it is to be.
            let _ = self.bucket.client.ask(self.asked("DELETE"));
        }
        checked
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(id) = self.id.take().filter(|_| !self.is_ended) {
            // What cannot be removed now the rules of the bucket have to remove.
            let query = [("uploadId", id.as_str())];
            let _ = self.bucket.client.ask(Asked { query: &query, ..self.asked("DELETE") });
        }
    }
}

/// An object that is read.
pub(super) struct Object {
    bucket: Bucket,
    key: String,
    size: u64,
    /// The place behind the part.
    at: u64,
    part: Vec<u8>,
    /// How much of the part was read.
    read: usize,
}

impl Read for Object {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.part.len() {
            if self.at == self.size {
                return Ok(0);
            }
            let last = (self.at + RANGE).min(self.size) - 1;
            let range = format!("bytes={}-{last}", self.at);
            let headers = [("range", range.as_str())];
            let asked = Asked { headers: &headers, ..self.bucket.asked("GET", &self.key) };
            let answer = self.bucket.found(asked).map_err(io::Error::other)?;
            let length = last + 1 - self.at;
            if answer.body.len() as u64 != length {
                let found = answer.body.len();
                let why = format!("the store gives {found} bytes, and not {length}");
                return Err(io::Error::other(why));
            }
            (self.part, self.read, self.at) = (answer.body, 0, last + 1);
        }
        let count = out.len().min(self.part.len() - self.read);
        out[..count].copy_from_slice(&self.part[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    /// Answers requests in turn: the beginning of each is to be as given. A request's head and body
    /// are given back.
    fn store(
        script: Vec<(&'static str, u16, &'static str)>,
    ) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let answers = thread::spawn(move || {
            let mut heard = Vec::new();
            for (begins, status, body) in script {
                let mut stream = BufReader::new(listener.accept().unwrap().0);
                let (mut head, mut length) = (String::new(), 0);
                loop {
                    let mut line = String::new();
                    stream.read_line(&mut line).unwrap();
                    if line == "\r\n" {
                        break;
                    }
                    let lower = line.to_ascii_lowercase();
                    if let Some(bytes) = lower.strip_prefix("content-length:") {
                        length = bytes.trim().parse().unwrap();
                    }
                    head += &lower;
                }
                let mut sent = vec![0; length];
                stream.read_exact(&mut sent).unwrap();
                assert!(head.starts_with(begins), "{begins}: {head}");
                heard.push(head);
                let length = body.len();
                let shown = if begins.starts_with("head") { "" } else { body };
                let answer = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\n\
                     connection: close\r\n\r\n{shown}"
                );
                stream.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            heard
        });
        (endpoint, answers)
    }

    fn bucket(endpoint: String) -> Bucket {
        let directory = std::env::temp_dir().join(format!("nines-s3-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let keys = directory.join("keys");
        if !keys.exists() {
            let text = "aws_access_key_id = a\naws_secret_access_key = b\n";
            std::fs::write(&keys, text).unwrap();
        }
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
        let store =
            ObjectStore { endpoint: Some(endpoint), keys: Some(keys), ..Default::default() };
        Bucket::open("bucket/chain", &store).unwrap()
    }

    /// A driver of an archive that has lost its claim wrote over its successor's segment.
    #[test]
    fn of_two_who_write_the_same_object_the_first_stays() {
        const HEAD: &str = "head /bucket/chain/1.changes ";
        const PUT: &str = "put /bucket/chain/1.changes ";
        const GET: &str = "get /bucket/chain/1.changes ";
        let written = |script, expected: Result<(), &str>| {
            let (endpoint, answers) = store(script);
            let result = bucket(endpoint).put_new("1.changes", b"mine");
            let heard = answers.join().unwrap();
            match expected {
                Ok(()) => assert_eq!(result, Ok(())),
                Err(text) => assert!(result.as_ref().unwrap_err().contains(text), "{result:?}"),
            }
            heard
        };
        let heard = written(vec![(HEAD, 404, ""), (PUT, 200, ""), (HEAD, 200, "mine")], Ok(()));
        assert!(heard[1].contains("if-none-match: *\r\n"), "{}", heard[1]);
        written(vec![(HEAD, 200, "else")], Err("it is there already"));
        let beside = vec![(HEAD, 404, ""), (PUT, 412, ""), (GET, 200, "else")];
        written(beside, Err("it is there already"));
        // The answer to the first try was lost.
        written(vec![(HEAD, 404, ""), (PUT, 412, ""), (GET, 200, "mine")], Ok(()));
        // Another write was under way, and has come to nothing.
        let retried = vec![(HEAD, 404, ""), (PUT, 409, ""), (PUT, 200, ""), (HEAD, 200, "mine")];
        written(retried, Ok(()));
        // A store without conditions.
        let plain = vec![(HEAD, 404, ""), (PUT, 501, ""), (PUT, 200, ""), (HEAD, 200, "mine")];
        let heard = written(plain, Ok(()));
        assert!(!heard[2].contains("if-none-match"), "{}", heard[2]);
    }

    #[test]
    fn an_address_is_a_bucket_and_a_path() {
        let ok = |address: &str, name: &str, prefix: &str| {
            assert_eq!(parsed(address).unwrap(), (name.to_owned(), prefix.to_owned()), "{address}");
        };
        ok("backups", "backups", "");
        ok("backups/", "backups", "");
        ok("b.x-1/2026/all ü/", "b.x-1", "2026/all ü");
        for address in [
            "",
            "/",
            "/x",
            "ab",
            "Upper/x",
            "b..x/y",
            "backups//x",
            "backups/../x",
            "backups/./x",
            "backups/a\nb",
        ] {
            assert!(parsed(address).is_err(), "{address}");
        }
        for address in ["key:secret@backups/x", "backups/x?AccessKeyId=a", "backups/x#y"] {
            let why = parsed(address).unwrap_err();
            assert!(why.contains("keys do not belong") && !why.contains("secret"), "{why}");
        }
    }
}
