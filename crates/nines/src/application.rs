//! The SQL node as an application of the runtime.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use runtime::{ApplicationFactory, Fiber, TemporaryDirectory};
use sql::{
    Admission, BackupPolicy, Directory, Sequences, ServerAddress, SqlNode, SqlOptions, Stack,
};

use crate::backup::{self, ObjectStore};
use crate::temporary_files::HostFiles;
use crate::{machine, replication};

/// Less than this is no budget.
pub(crate) const QUERY_MEMORY_MIN: u64 = 16 << 20;

/// What statements of an SQL node may use of its host.
#[derive(Debug)]
pub(crate) struct Resources {
    /// What statements may keep in memory, unless it follows the machine.
    pub(crate) query_memory: Option<u64>,
    /// Where what does not fit in memory goes.
    pub(crate) temporary: TemporaryDirectory,
    /// What the configuration says of backups.
    pub(crate) backups: BackupPolicy,
    /// Where the object store for backups is.
    pub(crate) store: ObjectStore,
}

/// Makes the SQL node's actors. All of a process share a registry, the ranges of AUTO_INCREMENT and
/// what logins take; `variables` are first values of global variables.
/// `durable` is the level that sessions begin with.
pub(crate) fn sql_node(
    address: ServerAddress,
    admission: Admission,
    variables: &[(&str, String)],
    durable: bool,
    resources: Resources,
) -> ApplicationFactory {
    let Resources { query_memory, temporary, backups, store } = resources;
    let (registry, sequences) = (Directory::default(), Mutex::new(Sequences::default()));
    let automatic = || (machine::memory() / 4).max(QUERY_MEMORY_MIN);
    registry.backups().serve_by(Arc::new(backup::Host { store }));
    registry.backups().configure(backups);
    registry.sources().serve_by(Arc::new(replication::Host));
    registry.memory().configure(query_memory.unwrap_or_else(automatic));
    let path = temporary.path().display().to_string();
    registry.lock().globals.insert("tmpdir".to_owned(), path);
    registry.memory().temp_space().serve(Arc::new(HostFiles::new(temporary)));
    let host_offset = machine::utc_offset();
    set_variables(&registry, &admission);
    let given = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    registry.lock().globals.extend(given);
    if durable {
        let name = "nines_durability".to_string();
        registry.lock().globals.insert(name, "disk".to_string());
    }
    Arc::new(move |place| {
        let sequences = sequences.lock().expect("nobody panics while holding it").clone();
        Box::new(SqlNode::new(SqlOptions {
            directory: registry.clone(),
            sequences,
            clock_base: i64::try_from(place.clock_origin / 1_000).unwrap_or(i64::MAX),
            host_offset,
            admission: admission.clone(),
            address: address.clone(),
            clock: Some(machine::elapsed),
            stack: Some(stack),
        }))
    })
}

/// Gives the variables of encryption the values that the process was started with.
fn set_variables(registry: &Directory, admission: &Admission) {
    let Some(encryption) = &admission.encryption else { return };
    let facts = encryption.facts();
    let mut registry = registry.lock();
    let mut set = |name: &str, value: String| registry.globals.insert(name.to_owned(), value);
    // The file that clients are given, also where it was made here.
    set("ssl_ca", facts.authority);
    set("ssl_cert", facts.settings.certificate);
    set("ssl_key", facts.settings.key);
    set("ssl_cipher", facts.settings.ciphers);
    set("tls_version", facts.settings.versions);
    if let Some(suites) = facts.settings.suites {
        set("tls_ciphersuites", suites);
    }
}

/// A stack for tasks that pause in the middle of a call, if the system has one.
fn stack(body: Box<dyn FnMut()>) -> Option<Box<dyn Stack>> {
    let fiber = Fiber::new(body).ok()?;
    Some(Box::new(OwnStack(fiber)))
}

struct OwnStack(Fiber);

impl Stack for OwnStack {
    fn run(&mut self) -> bool {
        self.0.run()
    }

    fn suspender(&self) -> Rc<dyn Fn()> {
        let suspender = self.0.suspender();
        Rc::new(move || suspender.suspend())
    }
}
