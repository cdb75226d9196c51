//! How a client proves a password: the packets of each plugin.
//!
//! # Guarantees
//! A client is asked for another plugin once. The 5,000 rounds of `caching_sha2_password` are done
//! in pieces, between which others have the worker; what the RSA key does is done aside.
//! # Not here
//! Whether a proof is right (`mysql_wire::auth`).

use actor::Transport;
use mysql_wire::answer;
use mysql_wire::auth::sha2::{self, Stored};
use mysql_wire::auth::{self, Account, CACHING_SHA2, Crypt, NATIVE, Plugin, native};
use mysql_wire::constants::capability;
use sql_expression::SqlError;
use stdx::Duration;

use super::super::{Connection, End, Greeting};
use super::Patience;
use crate::admission::{KeyAnswer, PasswordKey};

/// Rounds of a hash between two looks at the clock.
const ROUNDS_PER_LOOK: u32 = 32;
/// What a round counts as, where work is counted and there is no clock.
const WORK_OF_ROUND: u64 = 1;
/// How long to wait before it is looked again whether something done aside is done.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What a client has proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proven {
    /// The password of this hash, to `mysql_native_password`.
    Native([u8; 20]),
    /// A password, or that there is none, or who it is.
    Other,
}

/// A proof that is being given.
pub(super) struct Proof<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) greeting: &'a Greeting,
    pub(super) patience: Patience,
    /// The plugin that made `answer`.
    pub(super) plugin: String,
    /// What the client has sent last.
    pub(super) answer: Vec<u8>,
    /// The client has used a password.
    pub(super) with_password: bool,
}

impl Proof<'_> {
    /// Whether the client proves that an account is its own.
    pub(super) async fn check(
        &mut self,
        plugin: Plugin,
        account: &Account,
    ) -> Result<Option<Proven>, End> {
        match plugin {
            Plugin::Socket => {
                self.with_password = !auth::is_without_password(&self.answer);
                return Ok(self.is_user_of_socket(account).then_some(Proven::Other));
            }
            Plugin::CachingSha2 => self.switch_to(CACHING_SHA2).await?,
            Plugin::Native => self.switch_to(NATIVE).await?,
        }
        self.with_password = !auth::is_without_password(&self.answer);
        if !self.with_password {
            return Ok(account.is_without_password().then_some(Proven::Other));
        }
        match plugin {
            Plugin::Native => Ok(self.native(account)),
            _ => Ok(self.caching_sha2(account).await?.then_some(Proven::Other)),
        }
    }

    /// `auth_socket`: the name of the system's user is that of the account, or the one that it
    /// names.
    fn is_user_of_socket(&self, account: &Account) -> bool {
        let Transport::Unix { user: Some(user) } = &self.greeting.peer.transport else {
            return false;
        };
        let other = account.secrets.first().filter(|name| !name.is_empty());
        *user == *other.unwrap_or(&account.user)
    }

    /// Has the client answer as a plugin wants, if it has not.
    async fn switch_to(&mut self, plugin: &'static str) -> Result<(), End> {
        let wire = &self.connection.wire;
        if !wire.has(capability::PLUGIN_AUTH) {
            // It knows the older plugin, and nothing of others; no password is none in all.
            return match plugin {
                NATIVE => Ok(()),
                _ if auth::is_without_password(&self.answer) => Ok(()),
                _ => Err(End::Error(SqlError::of::<1251>(&[]))),
            };
        }
        // MariaDB's servers, as replicas, name a plugin that the greeting has not named, and send
        // nothing before they are asked for it.
        let is_asked = super::first_plugin(&self.connection.session) == plugin;
        let has_answered = is_asked || !auth::is_without_password(&self.answer);
        if self.plugin.eq_ignore_ascii_case(plugin) && has_answered {
            return Ok(());
        }
        wire.write(|out| answer::auth_switch(out, plugin, &self.greeting.nonce));
        self.answer = self.patience.packet(self.connection).await?;
        Ok(())
    }

    fn native(&self, account: &Account) -> Option<Proven> {
        let mut found = None;
        for secret in &account.secrets {
            let hash = native::parse(secret);
            // One that is none takes as long.
            let right =
                native::matches(&self.answer, &self.greeting.nonce, &hash.unwrap_or([0; 20]));
            found = found.or(hash.filter(|_| right).map(Proven::Native));
        }
        found
    }

    async fn caching_sha2(&mut self, account: &Account) -> Result<bool, End> {
        let nonce = &self.greeting.nonce;
        for secret in &account.secrets {
            let verifier = self.connection.session.shared.admission.verifiers().get(secret);
            if verifier.is_some_and(|verifier| sha2::matches(&self.answer, nonce, &verifier)) {
                self.connection.wire.write(|out| answer::auth_more(out, &[sha2::PROVEN]));
                return Ok(true);
            }
        }
        let password = self.password().await?;
        let mut found = None;
        for secret in &account.secrets {
            if let Some(stored) = Stored::parse(secret)
                && self.is_password_of(password.as_deref(), &stored).await?
            {
                found = Some(secret);
            }
        }
        if account.secrets.iter().all(|secret| Stored::parse(secret).is_none()) {
            // Nobody learns from the time that there is nothing to compare with.
            self.is_password_of(password.as_deref(), &Account::impossible()).await?;
        }
        let (Some(secret), Some(password)) = (found, &password) else { return Ok(false) };
        let verifier = sha2::verifier(password);
        self.connection.session.shared.admission.verifiers().insert(secret, verifier);
        Ok(true)
    }

    /// The password itself, which the client is asked for; none if what it sends is none.
    async fn password(&mut self) -> Result<Option<Vec<u8>>, End> {
        self.connection.wire.write(|out| answer::auth_more(out, &[sha2::FULL]));
        let sent = self.patience.packet(self.connection).await?;
        let is_secret = self.connection.session.tls.is_some()
            || matches!(self.greeting.peer.transport, Transport::Unix { .. });
        if is_secret {
            return Ok(sha2::password(&sent, None));
        }
        let Some(key) = self.connection.session.shared.admission.password_key.clone() else {
            return Ok(None);
        };
        let mut sealed = sent;
        if sealed == [sha2::WANTS_KEY] {
            let ask = |key: &dyn PasswordKey, answer: &KeyAnswer| key.ask_public(answer);
            let Some(public) = self.aside(&*key, ask).await? else { return Ok(None) };
            self.connection.wire.write(|out| answer::auth_more(out, &public));
            sealed = self.patience.packet(self.connection).await?;
        }
        let ask = |key: &dyn PasswordKey, answer: &KeyAnswer| key.ask_open(&sealed, answer);
        let opened = self.aside(&*key, ask).await?;
        Ok(opened.and_then(|opened| sha2::password(&opened, Some(&self.greeting.nonce))))
    }

    /// Waits for what is done aside, and for room to ask for it.
    async fn aside(
        &self,
        key: &dyn PasswordKey,
        ask: impl Fn(&dyn PasswordKey, &KeyAnswer) -> bool,
    ) -> Result<Option<Vec<u8>>, End> {
        let (answer, mut is_asked) = (KeyAnswer::default(), false);
        loop {
            is_asked = is_asked || ask(key, &answer);
            if let Some(found) = answer.get() {
                return Ok(found.clone());
            }
            if self.connection.wire.link.now() >= self.patience.until {
                return Err(End::Gone);
            }
            self.connection.session.kernel.sleep(LOOK_AGAIN).await?;
        }
    }

    /// Whether a password is the stored one; one that is none takes as long.
    async fn is_password_of(&self, password: Option<&[u8]>, stored: &Stored) -> Result<bool, End> {
        let mut crypt = Crypt::new(password.unwrap_or(b"?"), &stored.salt, stored.rounds);
        let session = &self.connection.session;
        while !crypt.step(ROUNDS_PER_LOOK) {
            if session.shared.pace.is_over(u64::from(ROUNDS_PER_LOOK) * WORK_OF_ROUND) {
                session.kernel.breathe().await?;
                session.shared.pace.resume();
            }
        }
        Ok(auth::same(&crypt.digest(), &stored.digest) && password.is_some())
    }
}
