//! `nines sql`: an SQL node, which any client may use and which holds nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use cluster_config::{ClusterConfig, Node};
use model::NodeId;
use runtime::{
    Cluster, LinkListeners, NodeCredentials, NodeKey, NodeRole, Role, ServerTls, Setup, TlsSettings,
};
use sql::{BackupPolicy, ServerAddress};

use super::client::{Connect, Given};
use super::credentials::{Asking, Besides, JoinOptions, is_due, keep_good, write};
use super::process::{
    Drain, Farewell, Life, after, be_missed_at_once, live, log_of, report, watching,
};
use super::request::{CertificateRequest, Certified};
use super::token::Token;
use super::{credentials_of, link_credentials, links};
use crate::application::{self, Resources};
use crate::backup::ObjectStore;
use crate::http::Endpoint;
use crate::layout::Layout;
use crate::machine::Cpus;
use crate::place::{Place, PlaceOptions};
use crate::process::watch_signals;

/// The options of `nines sql`.
#[derive(Clone, Debug)]
pub(crate) struct SqlOptions {
    pub(crate) connect: Connect,
    pub(crate) node: Option<NodeId>,
    pub(crate) place: PlaceOptions,
    pub(crate) workers: Option<u8>,
    /// Sessions begin with commits that wait for the disk.
    pub(crate) durable: bool,
    /// What it becomes a node by.
    pub(crate) token: Option<Token>,
}

impl SqlOptions {
    /// Where its certificate is; only in a directory that was named, as others are for everybody.
    fn join(&self) -> JoinOptions {
        let directory = self.place.tls.directory.clone().or_else(|| self.place.directory.clone());
        JoinOptions { directory, token: self.token.clone() }
    }
}

/// Runs an SQL node until it is told to stop.
pub(crate) fn run(options: &SqlOptions) -> Result<(), String> {
    let (send, happenings) = channel();
    be_missed_at_once();
    watch_signals(send.clone())?;
    let connect_to = &options.connect;
    let joined = options.join().of_client(NodeRole::Sql, options.node, connect_to, &happenings)?;
    let Some(joined) = joined else { return Ok(()) };
    let own_files = options.place.tls.settings.certificate.is_some();
    let by_cluster = joined.0.is_some() && !own_files && options.place.tls.is_wanted();
    let place = Place::take(&options.place, by_cluster)?;
    let node = joined.node().or(options.node);
    let given = connect_to.begin("sql", node, joined.0, &happenings)?;
    let Some(Given { config, node, credentials, .. }) = given else { return Ok(()) };
    let own = config.node(node).ok_or_else(|| format!("node {} is not configured", node.0))?;
    let credentials = credentials_of(own, credentials)?;
    let on_links = link_credentials(&config, own, credentials.as_ref());
    let layout = Layout::new(own, options.workers, &Cpus::of_process())?;
    let threads = layout.workers;
    let log = log_of(node);
    let endpoint = Endpoint::new(vec![(node, Role::Client)]);
    let serves_http = endpoint.serve_node(own, credentials.as_ref())?;
    if let Some(credentials) = &credentials {
        let besides = by_cluster.then(|| {
            let shown = ShownToClients::new(&place, &options.place.tls.settings, credentials);
            shown.begin(connect_to, credentials, log.clone())
        });
        let log = log.clone();
        keep_good(credentials, connect_to, move |line| log(line), besides.transpose()?)?;
    }
    let (admission, announcement) = place.admission(node, log.clone())?;
    let (connect, verify) = (place.how_to_connect(&options.place.bind), place.how_to_verify());
    let encrypted = config.is_encrypted();
    let address = ServerAddress { encrypted, alone: true, ..place.server_address() };
    let given = own.temporary_directory().map(Path::new);
    let temporary = options.place.temporary.as_deref().or(given);
    let temporary = place.temporary(temporary, config.encrypts_any())?;
    let (backups, store) = backups(&config, own);
    let query_memory = own.query_memory();
    let resources = Resources { query_memory, temporary, backups, store };
    let (variables, durable) = (&options.place.variables, options.durable);
    let application = application::sql_node(address, admission, variables, durable, resources);
    let cluster = Cluster::start(Setup {
        config: Arc::new(config.kernel(node, threads, 0)),
        threads,
        scheduling: layout.scheduling,
        nodes: vec![(node, Role::Client)],
        links: Some(links(&config, own, LinkListeners::default(), None, on_links)),
        application: Some(application),
        operator: None,
        listeners: place.listeners,
        tls: Some(place.tls),
        disk: None,
        trace_directory: place.directory,
        watching: Some(watching()),
        report: report(send),
    });
    let cluster = cluster.map_err(|error| format!("cannot start: {error}"))?;
    endpoint.attach(cluster.observer());
    let ready = format!("ready: SQL node {} of cluster {}; {connect}", node.0, config.name());
    log(&format!("threads: {}; {}", layout.line, cluster.spinning()));
    log(&verify);
    serves_http.iter().for_each(|line| log(line));
    let notice = Duration::from_millis(own.drain_notice());
    let timeout = Duration::from_millis(own.drain_timeout());
    let end = Farewell::Drain(Drain { endpoint: &endpoint, notice, timeout });
    let life = Life { ready, announcement, end, on_disk: false, log: &*log };
    after(live(cluster, &happenings, &life)?)
}

/// What the configuration says of backups.
fn backups(config: &ClusterConfig, own: &Node) -> (BackupPolicy, ObjectStore) {
    let policy = BackupPolicy {
        rate: own.backup_rate(),
        requires_key: config.requires_encrypted_backups(own),
        directory: own.backup_directory().map(str::to_owned),
    };
    let given = |name: &str| own.backup_store(name).map(str::to_owned);
    let store = ObjectStore {
        endpoint: given("BackupS3Endpoint"),
        region: given("BackupS3Region"),
        keys: given("BackupS3CredentialsFile").map(PathBuf::from),
        authorities: given("BackupS3Authorities").map(PathBuf::from),
    };
    (policy, store)
}

/// The certificate that clients of MySQL are shown, by which `--ssl-mode=VERIFY_IDENTITY` knows the
/// node: signed by the cluster's authority for the names of the host.
struct ShownToClients {
    directory: PathBuf,
    names: Vec<String>,
    tls: ServerTls,
    settings: TlsSettings,
    authorities: PathBuf,
}

impl ShownToClients {
    fn new(place: &Place, settings: &TlsSettings, credentials: &NodeCredentials) -> Self {
        let (directory, names, tls) = (place.keys.clone(), place.names.clone(), place.tls.clone());
        let authorities = credentials.files().authority.clone();
        Self { directory, names, tls, settings: settings.clone(), authorities }
    }

    /// Gets the first one, and says what is to be done to keep it good.
    fn begin(
        self,
        connect: &Connect,
        credentials: &NodeCredentials,
        log: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Besides, String> {
        let asking = Asking::new(connect.clone(), credentials.clone());
        if let Err(why) = self.renew(&asking).or_else(|why| self.show_last().map_err(|_| why)) {
            // Certificates of the node are of somebody else's making.
            log(&format!("clients are shown a certificate that the node has made itself: {why}"));
            self.tls.reload(self.settings.clone())?;
        }
        let mut told = String::new();
        Ok(Box::new(move |asking: &Asking| {
            let (from, until) = self.tls.facts().validity;
            // Somebody may have given the node another certificate meanwhile.
            if !self.is_shown() || !is_due(from, until) && self.is_trusted() {
                return;
            }
            match self.renew(asking) {
                Ok(()) => {
                    told.clear();
                    log("clients are shown a new certificate");
                }
                Err(why) if why != told => {
                    log(&format!("clients are shown the certificate of before: {why}"));
                    told = why;
                }
                Err(_) => {}
            }
        }))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn is_shown(&self) -> bool {
        self.tls.facts().settings.certificate == Some(self.file(CERTIFICATE))
    }

    /// Whether its authority is trusted; clients keep what they have of it until it is retired.
    fn is_trusted(&self) -> bool {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let shown = runtime::Authority::ids(&text(&self.file(CERTIFICATE)));
        let trusted = runtime::Authority::ids(&text(&self.authorities));
        // The certificate is followed by its authority's.
        shown.last().is_some_and(|authority| trusted.contains(authority))
    }

    fn renew(&self, asking: &Asking) -> Result<(), String> {
        let key = NodeKey::generate()?.pem();
        let request = runtime::signing_request(&key)?;
        let mut names = self.names.clone();
        names.extend(asking.own_address().filter(|address| !self.names.contains(address)));
        let server = CertificateRequest::Server { request, names };
        let certified: Certified = asking.ask(server).map_err(|why| why.to_string())?;
        write(&self.directory, KEY, &key)?;
        write(&self.directory, CERTIFICATE, &certified.certificate)?;
        self.show_last()
    }

    /// Shows the certificate that is in the files.
    fn show_last(&self) -> Result<(), String> {
        let mut settings = self.settings.clone();
        settings.certificate = Some(self.file(CERTIFICATE));
        settings.key = Some(self.file(KEY));
        settings.authority.get_or_insert_with(|| self.authorities.clone());
        self.tls.reload(settings)
    }
}

const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
