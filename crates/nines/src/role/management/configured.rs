//! The configuration that a management node goes by: its file at first, the control log's as soon
//! as there is one.
//!
//! # Owns
//! What is in use and where it came from; the copy of it in the node's directory, by which the node
//! starts when nobody can be asked; whether the file says something else.
//! # Guarantees
//! 1. What the control log has is in use as soon as this node has heard of it, and is in the copy.
//! 2. A file that was changed by hand has no effect, and that is told.
//! # Not here
//! What a change needs, and whether it is refused: `change`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use cluster_config::ClusterConfig;
use model::NodeId;
use model::cluster::{Configured, Revision};

use super::{ManagementOptions, choose, parse};
use crate::role::credentials::write;

/// The name of the copy in the node's directory.
const COPY: &str = "configuration.ini";
/// What the copy begins with, before the version.
const COPY_HEAD: &str = "# Written by nines. Configuration version ";

/// The configuration in use. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct InUse(Arc<RwLock<Current>>);

/// A configuration with its version.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub(super) config: Arc<ClusterConfig>,
    /// Its version in the control log; 0 of a file.
    pub(super) version: u64,
}

impl InUse {
    pub(super) fn new(config: ClusterConfig, version: u64) -> Self {
        Self(Arc::new(RwLock::new(Current { config: Arc::new(config), version })))
    }

    pub(super) fn get(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn config(&self) -> Arc<ClusterConfig> {
        self.get().config
    }

    fn set(&self, current: Current) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

/// What a management node starts with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) config: ClusterConfig,
    pub(super) version: u64,
    pub(super) own: NodeId,
    /// What the file says.
    pub(super) file: ClusterConfig,
    /// The directory of the node, where its copy is. It follows from the file, as everything else
    /// is found there.
    pub(super) directory: PathBuf,
    /// What is worth saying.
    pub(super) notices: Vec<String>,
}

/// Reads the file, and the copy of what the control log had if there is one.
///
/// # Errors
/// Why the file cannot be used and what is wrong with it; or that the node is not in the copy.
pub(super) fn at_start(options: &ManagementOptions) -> Result<Start, (String, Vec<String>)> {
    let plain = |why: String| (why, Vec::new());
    let (file, mut notices) = parse(&options.file)?;
    let own = choose(&file, options.node).map_err(plain)?;
    let base = own.directory().unwrap_or_else(|| ".".into());
    let id = own.id;
    let directory = Path::new(&base).join(format!("node-{}", id.0));
    let copy = read_copy(&directory).map_err(plain)?;
    let (config, version) = match copy {
        Some((config, version)) => {
            let role = config.node(id).map(|node| node.role);
            if role != Some(cluster_config::Role::Management) {
                let copy = directory.join(COPY);
                return Err(plain(format!(
                    "node {} is no management node in version {version} of the configuration ({}); \
                     start it elsewhere, or add it by `nines ctl config apply` first",
                    id.0,
                    copy.display()
                )));
            }
            notices.clear();
            (config, version)
        }
        None => (file.clone(), 0),
    };
    Ok(Start { config, version, own: id, file, directory, notices })
}

/// The copy in a directory, with its version.
fn read_copy(directory: &Path) -> Result<Option<(ClusterConfig, u64)>, String> {
    let path = directory.join(COPY);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let unusable = |why: String| {
        format!(
            "{} cannot be used: {why}; without it the node starts by its own file, and gets the \
             configuration from the cluster",
            path.display()
        )
    };
    let version = text.strip_prefix(COPY_HEAD).and_then(|rest| rest.lines().next()?.parse().ok());
    let version = version.ok_or_else(|| unusable("its first line names no version".into()))?;
    let parsed = ClusterConfig::parse(text.as_bytes());
    let parsed = parsed.map_err(|problems| {
        let first = problems.first().map(|problem| problem.at(COPY).to_string());
        unusable(first.unwrap_or_default())
    })?;
    Ok(Some((parsed.config, version)))
}

/// Keeps the configuration in use.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) in_use: InUse,
    file: PathBuf,
    /// The file's content, as it was at the start.
    from_file: ClusterConfig,
    /// Where the copy goes; none where the node has no disk.
    directory: Option<PathBuf>,
    /// The version that could not be read.
    unread: u64,
}

/// Something to be told, and whether it is bad.
pub(super) type Told = Option<Result<String, String>>;

impl Keeper {
    pub(super) fn new(start: &Start, options: &ManagementOptions, on_disk: bool) -> Self {
        Self {
            in_use: InUse::new(start.config.clone(), start.version),
            file: options.file.clone(),
            from_file: start.file.clone(),
            directory: on_disk.then(|| start.directory.clone()),
            unread: 0,
        }
    }

    /// Takes over what the control log has, if that is newer than what is in use.
    pub(super) fn take(&mut self, configured: &Configured) -> Told {
        let version = configured.version();
        let current = self.in_use.get();
        if version <= current.version.max(self.unread) {
            return None;
        }
        let config = match ClusterConfig::parse(configured.text.as_bytes()) {
            Ok(parsed) => parsed.config,
            Err(problems) => {
                self.unread = version;
                let first = problems.first().map(|problem| problem.at("configuration").to_string());
                return Some(Err(format!(
                    "this program cannot read version {version} of the configuration, and goes on \
                     with version {}: {}",
                    current.version,
                    first.unwrap_or_default()
                )));
            }
        };
        let kept = match &self.directory {
            Some(directory) => {
                let text = format!("{COPY_HEAD}{version}\n{}", config.canonical());
                write(directory, COPY, &text)
            }
            None => Ok(()),
        };
        self.in_use.set(Current { config: Arc::new(config), version });
        if let Err(why) = kept {
            return Some(Err(format!(
                "version {version} of the configuration is in use, and cannot be kept for the next \
                 start: {why}"
            )));
        }
        let last = configured.revisions.last();
        let (by, what) =
            last.map_or(("nobody", &[][..]), |revision| (revision.by.as_str(), &revision.what));
        Some(Ok(format!(
            "version {version} of the configuration is in use, by {by}: {}",
            what.join("; ")
        )))
    }

    /// What the file says that is not in use and never was; none if it says nothing new.
    pub(super) fn differs(&self, revisions: &[Revision]) -> Option<String> {
        let current = self.in_use.get();
        if current.version == 0 {
            return None;
        }
        // A node without an id in the file has the one that it was given.
        let text = self.from_file.canonical();
        let ids = ClusterConfig::parse_after(text.as_bytes(), &current.config);
        let file = ids.map_or_else(|_| self.from_file.clone(), |parsed| parsed.config);
        let fingerprint = file.fingerprint().to_string();
        let known = revisions.iter().any(|revision| revision.fingerprint == fingerprint);
        if known || file.compare(&current.config).is_empty() {
            return None;
        }
        let name = self.file.display();
        Some(format!(
            "{name} says something else than version {} of the configuration, which is in use: the \
             file has no effect; `nines ctl config diff {name}` shows what is different, and \
             `config apply` takes it over",
            current.version
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::fixture;

    fn revision(version: u64, config: &ClusterConfig) -> Revision {
        let fingerprint = config.fingerprint().to_string();
        let (by, what) = ("somebody".to_string(), vec!["something".to_string()]);
        Revision { version, at: 0, by, fingerprint, what, restarts: Vec::new() }
    }

    fn configured(before: Option<&Configured>, config: &ClusterConfig) -> Configured {
        let version = before.map_or(0, Configured::version) + 1;
        let revision = revision(version, config);
        Configured::after(before, &config.canonical(), &revision).expect("it is short")
    }

    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("nines-configured-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(path.join("node-49")).expect("a temporary directory");
            Self(path)
        }

        fn options(&self, text: &str) -> ManagementOptions {
            let file = self.0.join("config.ini");
            fs::write(&file, text).expect("it is writable");
            ManagementOptions {
                file,
                node: Some(NodeId(49)),
                keys: Default::default(),
                join: Default::default(),
            }
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            // It is a temporary directory.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_node_starts_by_what_the_control_log_had_and_tells_that_its_file_is_another() {
        let place = Place::new("start");
        let base = fixture::config(2, &["127.0.0.1", "127.0.0.1"], &["127.0.0.1"]);
        let text = |memory: &str| {
            let text = base.canonical().replace("[ndb_mgmd]", "[ndb_mgmd]\nDataDir=DIR");
            let text = text.replace("DIR", &place.0.display().to_string());
            text.replace("[ndbd]", &format!("[ndbd]\nDataMemory={memory}"))
        };
        let options = place.options(&text("1G"));
        let start = at_start(&options).expect("the file is good");
        assert_eq!((start.version, start.own), (0, NodeId(49)));
        let mut keeper = Keeper::new(&start, &options, true);
        assert_eq!(keeper.differs(&[]), None);
        let first = configured(None, &start.config);
        assert!(matches!(keeper.take(&first), Some(Ok(_))));
        assert_eq!(keeper.take(&first), None, "it is in use");
        let other = start.config.assign(&["ndbd.DataMemory=2G".into()]).expect("it is good");
        let second = configured(Some(&first), &other);
        let told = keeper.take(&second).expect("it is new").expect("it is good");
        assert!(told.contains("version 2") && told.contains("somebody: something"), "{told}");
        assert_eq!(keeper.in_use.get().version, 2);
        assert_eq!(keeper.in_use.config().fingerprint(), other.fingerprint());
        assert_eq!(keeper.differs(&second.revisions), None, "it was version 1");
        // The next life.
        let start = at_start(&options).expect("the copy is good");
        assert_eq!((start.version, start.config.fingerprint()), (2, other.fingerprint()));
        let keeper = Keeper::new(&start, &options, true);
        assert_eq!(keeper.differs(&second.revisions), None);
        let options = place.options(&text("3G"));
        let start = at_start(&options).expect("the copy is good");
        assert_eq!(start.config.fingerprint(), other.fingerprint(), "the file has no effect");
        let told = Keeper::new(&start, &options, true).differs(&second.revisions);
        assert!(told.is_some_and(|told| told.contains("config diff")));
        // A damaged copy is not taken for a configuration.
        let copy = start.directory.join(COPY);
        fs::write(&copy, "# \n[ndbd]\n").expect("it is writable");
        let (why, _) = at_start(&options).expect_err("it names no version");
        assert!(why.contains("names no version"), "{why}");
        fs::write(&copy, format!("{COPY_HEAD}7\n[ndbd]\nDataMemry=1\n")).expect("writable");
        let (why, _) = at_start(&options).expect_err("it is damaged");
        assert!(why.contains("DataMemry"), "{why}");
    }

    #[test]
    fn what_a_newer_program_wrote_is_told_once_and_not_taken() {
        let base = fixture::config(2, &["a", "b"], &["c"]);
        let in_use = InUse::new(base.clone(), 1);
        let file = PathBuf::from("config.ini");
        let mut keeper =
            Keeper { in_use, file, from_file: base.clone(), directory: None, unread: 0 };
        let text = format!("{}[ndbd]\nNewParameter=1\n", base.canonical());
        let first = configured(None, &base);
        let newer = Configured::after(Some(&first), &text, &revision(2, &base)).expect("short");
        let why = keeper.take(&newer).expect("it is told").expect_err("it cannot be read");
        assert!(why.contains("goes on with version 1"), "{why}");
        assert_eq!(keeper.take(&newer), None, "it has been told");
        assert_eq!(keeper.in_use.get().version, 1);
    }
}
