//! Requests to an object store, tried again where that may help.
//!
//! # Owns
//! Where the store is, the keys, the connections.
//! # Guarantees
//! A request ends: each try has a time limit, and so have all tries together. What the store has
//! refused for good is not tried again. An answer has the length that it says.
//! # Not here
//! What is asked for (`s3`), signatures (`sign`).

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ureq::http::{Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body};

use super::answer;
use super::sign::{Keys, Signed, encoded, query};
use crate::backup::place::open_plain;

/// Where the certificates of authorities are that the host trusts.
const AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// How long a try may take.
const TRY: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);
/// How long all tries of a request may take together.
const ALL_TRIES: Duration = Duration::from_secs(180);
/// The first pause before another try, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The largest answer.
const ANSWER_MAX: u64 = 256 << 20;
/// The largest file of keys.
const KEYS_MAX: u64 = 64 << 10;
const REGION: &str = "us-east-1";

/// Where an object store is, as the configuration says; what it does not say the environment does.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectStore {
    /// The address: `https://minio.example.com:9000`.
    pub(crate) endpoint: Option<String>,
    /// The region.
    pub(crate) region: Option<String>,
    /// A file with keys, as AWS's programs have it.
    pub(crate) keys: Option<PathBuf>,
    /// A file with the certificates of the authorities that are trusted.
    pub(crate) authorities: Option<PathBuf>,
}

/// An object store.
pub(in crate::backup) struct Client {
    agent: Agent,
    /// `https`, or `http`.
    scheme: String,
    /// With the port, if it is said.
    host: String,
    /// What is before the bucket in paths.
    path: String,
    /// The bucket is a part of the path, and not of the host's name.
    by_path: bool,
    region: String,
    keys: Keys,
    /// The endpoint, as it was given.
    shown: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("host", &self.host).finish_non_exhaustive()
    }
}

/// What is asked for.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) bucket: &'a str,
    /// Empty for the bucket itself.
    pub(super) key: &'a str,
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Names in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

impl Asked<'_> {
    /// Whether it is to be done only if the object is not there.
    fn is_conditional(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == "if-none-match")
    }
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) length: Option<u64>,
    pub(super) etag: Option<String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// The store of a configuration and of the environment.
    ///
    /// # Errors
    /// When there are no keys, or what is given cannot be read.
    pub(super) fn new(store: &ObjectStore) -> Result<Self, String> {
        let region = store.region.clone().or_else(|| first(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        let endpoint =
            store.endpoint.clone().or_else(|| first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let by_path = endpoint.is_some();
        let shown = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let parts =
            shown.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"));
        let (scheme, rest) = parts.ok_or_else(|| {
            "the address of the object store begins with https:// or http://".to_owned()
        })?;
        let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        if host.is_empty() || rest.contains(['@', '?', '#', ' ']) {
            return Err("the address of the object store is https://HOST[:PORT][/PATH], without \
                        names or passwords"
                .to_owned());
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        let (scheme, host) = (scheme.to_owned(), host.to_ascii_lowercase());
        let agent = agent(&scheme, store.authorities.as_deref())?;
        let keys = keys(store.keys.as_deref())?;
        Ok(Self { agent, scheme, host, path, by_path, region, keys, shown })
    }

    /// Asks, and tries again while that may help.
    ///
    /// # Errors
    /// When the store cannot be reached or has refused; the text names the bucket, not the keys.
    pub(super) fn ask(&self, asked: Asked<'_>) -> Result<Answer, String> {
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let (why, is_final) = match self.once(asked) {
                Ok(answer) if answer.status < 300 || answer.status == 404 => return Ok(answer),
                // The condition does not hold, or is nothing that the store knows.
                Ok(answer) if asked.is_conditional() && matches!(answer.status, 412 | 501) => {
                    return Ok(answer);
                }
                Ok(answer) => {
                    let may_pass = matches!(answer.status, 408 | 429 | 500 | 502 | 503 | 504)
                        || asked.is_conditional() && answer.status == 409;
                    (self.refused(asked, &answer), !may_pass)
                }
                Err(failed) => failed,
            };
            if is_final || began.elapsed() + pause > ALL_TRIES {
                return Err(format!("s3://{}: {why}", asked.bucket));
            }
            // Those who wait do not all come at once.
            thread::sleep(pause / 2 + pause.mul_f64(f64::from(jitter()) / 512.0));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Asks once. An error says why, and whether it would be the same again.
    fn once(&self, asked: Asked<'_>) -> Result<Answer, (String, bool)> {
        let (host, mut path) = if self.by_path {
            (self.host.clone(), format!("{}/{}", self.path, asked.bucket))
        } else {
            (format!("{}.{}", asked.bucket, self.host), String::new())
        };
        // A string takes anything.
        let _ = write!(path, "/{}", encoded(asked.key, true));
        let signed = Signed {
            method: asked.method,
            host: &host,
            path: &path,
            query: asked.query,
            headers: asked.headers,
            body: asked.body,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let mut address = format!("{}://{host}{path}", self.scheme);
        if !asked.query.is_empty() {
            let _ = write!(address, "?{}", query(asked.query));
        }
        let mut request = Request::builder().method(asked.method).uri(address);
        for (name, value) in asked.headers {
            request = request.header(*name, *value);
        }
        for (name, value) in signed.headers(&self.keys, &self.region, now) {
            request = request.header(name, value);
        }
        let wrong = |why: ureq::http::Error| (why.to_string(), true);
        let answer = match asked.method {
            "PUT" | "POST" => self.agent.run(request.body(asked.body).map_err(wrong)?),
            _ => self.agent.run(request.body(()).map_err(wrong)?),
        };
        let answer = answer.map_err(|why| {
            if is_of_certificates(&why) {
                (format!("{} is not who it is to be: {why}", self.shown), true)
            } else {
                (format!("{} does not answer: {why}", self.shown), false)
            }
        })?;
        let cut = |why: String| (format!("{} does not answer: {why}", self.shown), false);
        read(asked.method, answer).map_err(cut)
    }

    /// What a refusal means.
    fn refused(&self, asked: Asked<'_>, answer: &Answer) -> String {
        let xml = answer.text();
        let code = answer::text(&xml, "Code").unwrap_or_else(|| answer.status.to_string());
        let said = answer::text(&xml, "Message").unwrap_or_default();
        let key = if asked.key.is_empty() { "" } else { "/" };
        let what = format!("{} {key}{}: {code}", asked.method, asked.key);
        match (code.as_str(), answer.status) {
            (
                "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken",
                _,
            ) => {
                format!(
                    "the object store {} does not take the keys ({code}): they are in the \
                     environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or in the file of \
                     BackupS3CredentialsFile",
                    self.shown
                )
            }
            ("RequestTimeTooSkewed", _) => {
                format!("the clock of this host is wrong, says the object store {}", self.shown)
            }
            (_, 403) => format!("the object store {} forbids {what}", self.shown),
            (_, 301 | 307 | 400) => format!(
                "the object store {} refuses {what} {said}; its region is said by BackupS3Region \
                 or AWS_REGION",
                self.shown
            ),
            _ => format!("the object store {} refuses {what} {said}", self.shown),
        }
    }
}

/// Whether the other end has not shown who it is.
fn is_of_certificates(why: &ureq::Error) -> bool {
    match why {
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => true,
        // What the handshake says comes as an error of the connection.
        ureq::Error::Io(why) => why.kind() == std::io::ErrorKind::InvalidData,
        _ => false,
    }
}

fn read(method: &str, answer: Response<Body>) -> Result<Answer, String> {
    let status = answer.status().as_u16();
    let header = |name: &str| {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let length = header("content-length").and_then(|text| text.parse().ok());
    let etag = header("etag");
    let mut body = Vec::new();
    if method != "HEAD" {
        let read = answer.into_body().into_with_config().limit(ANSWER_MAX).read_to_vec();
        body = read.map_err(|why| why.to_string())?;
        if length.is_some_and(|length| length != body.len() as u64) {
            return Err("the answer was cut".to_owned());
        }
    }
    Ok(Answer { status, length, etag, body })
}

fn agent(scheme: &str, authorities: Option<&Path>) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("nines/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(Some(CONNECT))
        .timeout_global(Some(TRY));
    if scheme == "https" {
        let given = authorities.map(Path::to_path_buf);
        let given = given.or_else(|| first(&["SSL_CERT_FILE"]).map(PathBuf::from));
        let file = match given {
            Some(file) => file,
            None => {
                let found = AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
                found.ok_or(
                    "this host has no file of authorities that sign certificates: install \
                     ca-certificates, or set BackupS3Authorities",
                )?
            }
        };
        let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let text = fs::read(&file).map_err(|why| failed(&why))?;
        let mut trusted: Vec<Certificate<'static>> = Vec::new();
        for item in parse_pem(&text) {
            if let PemItem::Certificate(certificate) = item.map_err(|why| failed(&why))? {
                trusted.push(certificate);
            }
        }
        if trusted.is_empty() {
            return Err(failed(&"there is no certificate in it"));
        }
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(runtime::crypto_provider())
            .root_certs(RootCerts::Specific(Arc::new(trusted)))
            .build();
        config = config.tls_config(tls);
    }
    Ok(config.build().into())
}

/// The keys: of the file that is given, else of the environment, else of the file that it names.
fn keys(file: Option<&Path>) -> Result<Keys, String> {
    if let Some(file) = file {
        return keys_of(file);
    }
    if let Some(access) = first(&["AWS_ACCESS_KEY_ID"]) {
        let secret = first(&["AWS_SECRET_ACCESS_KEY"]);
        let secret = secret.ok_or("AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not")?;
        return Ok(Keys { access, secret, token: first(&["AWS_SESSION_TOKEN"]) });
    }
    match first(&["AWS_SHARED_CREDENTIALS_FILE"]) {
        Some(file) => keys_of(Path::new(&file)),
        None => Err("there are no keys for the object store: set BackupS3CredentialsFile, or \
                     AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
            .to_owned()),
    }
}

fn keys_of(file: &Path) -> Result<Keys, String> {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let (opened, _) = open_plain(file).map_err(|why| failed(&why))?;
    let mode = opened.metadata().map_err(|why| failed(&why))?.mode();
    if mode & 0o006 != 0 {
        return Err(failed(&"everybody may read or change it: chmod o-rw"));
    }
    let mut text = String::new();
    opened.take(KEYS_MAX).read_to_string(&mut text).map_err(|why| failed(&why))?;
    // The first section, or the default one where there are several.
    let (mut access, mut secret, mut token) = (None, None, None);
    let mut counts = true;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            counts = name.trim_end_matches(']').trim() == "default";
            continue;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| counts) else { continue };
        let value = Some(value.trim().to_owned());
        match name.trim().to_ascii_lowercase().as_str() {
            "aws_access_key_id" => access = value,
            "aws_secret_access_key" => secret = value,
            "aws_session_token" => token = value,
            _ => {}
        }
    }
    let missing = || failed(&"it says no aws_access_key_id and aws_secret_access_key");
    let (access, secret) = access.zip(secret).ok_or_else(missing)?;
    Ok(Keys { access, secret, token })
}

/// The first variable of the environment that is set.
fn first(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn jitter() -> u8 {
    let mut byte = [0];
    // Without random bytes all wait alike.
    let _ = runtime::random(&mut byte);
    byte[0]
}
