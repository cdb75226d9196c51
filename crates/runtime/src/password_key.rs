//! The RSA key by which clients seal a password that they send over an open connection.
//!
//! # Owns
//! The key, its file, and the thread that computes with it: one decryption takes most of a
//! millisecond, and making a key a hundred, for which nobody else is to wait.
//! # Guarantees
//! The key is made when the first client asks for it. So many requests may wait, and no more.
//! # Not here
//! Who asks, and what is in the sealed box (the SQL node).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use crate::tls::{private_file, read_key};

/// Where an answer appears: none inside if there is none.
pub type KeyAnswer = Arc<OnceLock<Option<Vec<u8>>>>;

/// Requests that may wait.
const WAITING_MAX: usize = 64;
/// The file of the key, by MySQL's name.
const KEY_FILE: &str = "private_key.pem";

/// A handle to the key.
#[derive(Clone, Debug)]
pub struct PasswordKey {
    directory: PathBuf,
    requests: Arc<Mutex<Option<SyncSender<Request>>>>,
}

struct Request {
    /// What is to be opened; none for the public key.
    sealed: Option<Vec<u8>>,
    answer: KeyAnswer,
}

impl PasswordKey {
    /// The key of a directory.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_path_buf(), requests: Arc::default() }
    }

    /// Asks for the public key, as PEM. False if too many have asked for something.
    pub fn ask_public(&self, answer: &KeyAnswer) -> bool {
        self.ask(None, answer)
    }

    /// Asks to open what was sealed with the public key, by OAEP. False if too many have asked for
    /// something.
    pub fn ask_open(&self, sealed: &[u8], answer: &KeyAnswer) -> bool {
        self.ask(Some(sealed.to_vec()), answer)
    }

    fn ask(&self, sealed: Option<Vec<u8>>, answer: &KeyAnswer) -> bool {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let request = Request { sealed, answer: answer.clone() };
        if let Some(sender) = &*requests {
            return sender.try_send(request).is_ok();
        }
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let directory = self.directory.clone();
        let thread = thread::Builder::new().name("passwords".to_owned());
        if thread.spawn(move || serve(&directory, &receiver)).is_err() {
            return false;
        }
        requests.insert(sender).try_send(request).is_ok()
    }
}

/// Answers until nobody can ask any more.
fn serve(directory: &Path, requests: &Receiver<Request>) {
    // Whoever does not log in yet waits for those who have.
    let _ = rustix::process::setpriority_process(None, NICE);
    let key = Key::kept_in(directory);
    for Request { sealed, answer } in requests {
        let found = key.as_ref().and_then(|key| match sealed {
            None => Some(key.public.clone().into_bytes()),
            Some(sealed) => key.open(&sealed),
        });
        // Each answer is given once.
        let _ = answer.set(found);
    }
}

/// How much the thread gives way to others.
const NICE: i32 = 5;

struct Key {
    private: OaepPrivateDecryptingKey,
    public: String,
}

impl Key {
    /// The key of a file, or a new one; none if the system has none to give.
    fn kept_in(directory: &Path) -> Option<Self> {
        let path = directory.join(KEY_FILE);
        let kept = read_key(&path).ok().and_then(|text| {
            let der = PrivateKeyDer::from_pem_slice(text.as_bytes()).ok()?;
            PrivateDecryptingKey::from_pkcs8(der.secret_der()).ok()
        });
        let key = match kept {
            Some(key) => key,
            None => {
                let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).ok()?;
                if !path.exists() {
                    let der: Pkcs8V1Der<'_> = key.as_der().ok()?;
                    // A key that is not kept is as good until the process ends.
                    let _ = keep(&path, &pem("PRIVATE KEY", der.as_ref()));
                }
                key
            }
        };
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        let public = pem("PUBLIC KEY", der.as_ref());
        Some(Self { private: OaepPrivateDecryptingKey::new(key).ok()?, public })
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut opened = vec![0; self.private.min_output_size()];
        let opened = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, sealed, &mut opened, None);
        opened.ok().map(|opened| opened.to_vec())
    }
}

/// Writes the key beside its place, and puts it there whole.
fn keep(path: &Path, text: &str) -> std::io::Result<()> {
    let beside = path.with_extension(format!("pem.{}", std::process::id()));
    private_file(&beside)?.write_all(text.as_bytes())?;
    fs::rename(beside, path)
}

fn pem(kind: &str, der: &[u8]) -> String {
    pem::encode_config(
        &pem::Pem::new(kind, der),
        pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF),
    )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use aws_lc_rs::rsa::{OaepPublicEncryptingKey, PublicEncryptingKey};

    use super::*;

    fn wait(answer: &KeyAnswer) -> Option<Vec<u8>> {
        let began = Instant::now();
        while answer.get().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "no answer");
            thread::sleep(Duration::from_millis(1));
        }
        answer.get().unwrap().clone()
    }

    #[test]
    fn what_is_sealed_is_opened_also_after_a_restart() {
        let name = format!("nines-password-key-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let (first, second) = (PasswordKey::new(&directory), PasswordKey::new(&directory));
        let public = |key: &PasswordKey| {
            let answer = KeyAnswer::default();
            assert!(key.ask_public(&answer));
            String::from_utf8(wait(&answer).unwrap()).unwrap()
        };
        let text = public(&first);
        assert!(text.starts_with("-----BEGIN PUBLIC KEY-----\n"), "{text}");
        assert_eq!(public(&second), text);
        let der = pem::parse(&text).unwrap();
        let sealer = PublicEncryptingKey::from_der(der.contents()).unwrap();
        let sealer = OaepPublicEncryptingKey::new(sealer).unwrap();
        let mut sealed = vec![0; sealer.ciphertext_size()];
        sealer.encrypt(&OAEP_SHA1_MGF1SHA1, b"secret\0", &mut sealed, None).unwrap();
        let answer = KeyAnswer::default();
        assert!(second.ask_open(&sealed, &answer));
        assert_eq!(wait(&answer).as_deref(), Some(&b"secret\0"[..]));
        for wrong in [&sealed[1..], b"", &[7; 256]] {
            let answer = KeyAnswer::default();
            assert!(second.ask_open(wrong, &answer));
            assert_eq!(wait(&answer), None);
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
