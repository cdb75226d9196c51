//! Where the keys of a node's disk come from: the command line, the configuration, the environment.
//!
//! # Guarantees
//! A node that is to encrypt what it writes does not start without a key, and the line says how one
//! is given.

use std::path::PathBuf;
use std::sync::Arc;

use cluster_config::{ClusterConfig, Node};
use runtime::{Encryption, KeyRing, KeySource, Rotated};

/// The source of keys that a command line names.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOptions {
    pub(crate) file: Option<PathBuf>,
    pub(crate) command: Option<String>,
}

/// The keys of a node that runs, and where their master key comes from.
#[derive(Clone, Debug)]
pub(crate) struct NodeKeys {
    pub(crate) ring: Arc<KeyRing>,
    pub(crate) source: KeySource,
}

impl KeyOptions {
    /// The source, if there is one.
    pub(crate) fn source(&self) -> Result<Option<KeySource>, String> {
        KeySource::choose(self.file.clone(), self.command.clone())
    }

    /// The source for a node: the command line's, the configuration's, the environment.
    fn source_for(&self, own: &Node) -> Result<Option<KeySource>, String> {
        if self.file.is_some() || self.command.is_some() {
            return self.source();
        }
        let file = own.encryption_key_file().map(PathBuf::from);
        let command = own.encryption_key_command().map(str::to_string);
        KeySource::choose(file, command).map_err(|why| {
            format!("EncryptedFileSystemKeyFile and EncryptedFileSystemKeyCommand: {why}")
        })
    }

    /// What a node's disk is told.
    pub(crate) fn for_node(
        &self,
        config: &ClusterConfig,
        own: &Node,
    ) -> Result<Encryption, String> {
        let encrypts = config.encrypts(own);
        let source = self.source_for(own)?;
        let master = source.as_ref().map(KeySource::read).transpose()?;
        if encrypts && master.is_none() {
            return Err(format!(
                "EncryptedFileSystem=1 for node {}, and there is no key: set \
                 EncryptedFileSystemKeyFile or EncryptedFileSystemKeyCommand, or \
                 NINES_ENCRYPTION_KEY in the environment of its process",
                own.id.0
            ));
        }
        Ok(Encryption { encrypts, master })
    }

    /// What the disks of `nines dev` are told: a key that is given is for encrypting, unless what
    /// is encrypted is to become plain again.
    pub(crate) fn for_dev(&self, decrypt: bool) -> Result<Encryption, String> {
        let master = self.source()?.as_ref().map(KeySource::read).transpose()?;
        Ok(Encryption { encrypts: master.is_some() && !decrypt, master })
    }
}

impl NodeKeys {
    /// Those of a directory, if it is encrypted.
    pub(crate) fn of(directory: &runtime::DataDirectory, given: &Encryption) -> Option<NodeKeys> {
        let (ring, master) = (directory.keys()?, given.master.as_ref()?);
        Some(NodeKeys { ring: ring.clone(), source: master.source().clone() })
    }

    /// Reads the master key again, and makes a new data key.
    pub(crate) fn rotate(keys: Option<&NodeKeys>) -> Result<Rotated, String> {
        let Some(NodeKeys { ring, source }) = keys else {
            return Err("it has no keys: its files are not encrypted".into());
        };
        ring.rotate(&source.read()?)
    }
}
