//! The files of backups: written and read for the SQL node, and looked at by `nines backup`.
//!
//! # Owns
//! A thread for each backup that is written or read ([`Host`]).
//! # Guarantees
//! A place holds a backup when `manifest.json` is in it, which is written last. What a thread
//! has written and not finished it removes, however it ends.
//! # Not here
//! The form of the files (`format`), directories and object stores (`place`), keys (`key`), what is
//! in a backup (`sql`).

mod archive;
pub(crate) mod command;
mod format;
mod key;
mod place;
mod prune;
mod reader;
mod rework;
mod s3;
mod writer;

use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use sql::{BackupAnswer, BackupFiles, BackupHost, BackupReply, BackupRequest};

use archive::{Archive, ChainWriter};
use place::Place;
use reader::Backup;
pub(crate) use s3::ObjectStore;
use writer::Writer;

/// Requests that wait for a thread.
const WAITING_MAX: usize = 4;
/// How much a thread gives way to those that serve clients.
const NICE: i32 = 5;

/// The files of the host's backups.
#[derive(Debug)]
pub(crate) struct Host {
    /// Where the object store is.
    pub(crate) store: ObjectStore,
}

impl BackupHost for Host {
    fn warn(&self, text: &str) {
        let line = format!("{} archive: {text}", crate::machine::timestamp());
        crate::tell(&line);
    }

    fn begin(&self) -> Option<Box<dyn BackupFiles>> {
        let (requests, received) = sync_channel(WAITING_MAX);
        let thread = thread::Builder::new().name("backup".to_owned());
        let store = self.store.clone();
        thread.spawn(move || serve(&received, &store)).ok()?;
        Some(Box::new(Files { requests }))
    }
}

/// A request with the place of its answer.
type Asked = (BackupRequest, BackupAnswer);

struct Files {
    requests: SyncSender<Asked>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Files")
    }
}

impl BackupFiles for Files {
    fn ask(&self, request: BackupRequest) -> Result<BackupAnswer, BackupRequest> {
        let answer = BackupAnswer::default();
        match self.requests.try_send((request, answer.clone())) {
            Err(TrySendError::Full((request, _))) => Err(request),
            // Of a thread that is gone nobody holds the answer: whoever waits sees that.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(answer),
        }
    }
}

/// What a thread is at work on.
enum Work {
    Nothing,
    Writing(Box<Writer>),
    Reading(Box<Backup>),
    Archiving(Box<ChainWriter>),
    Replaying(Box<Archive>),
}

/// Serves requests until nobody can ask any more.
fn serve(requests: &Receiver<Asked>, store: &ObjectStore) {
    // The system may not permit it; then it does not give way.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut work = Work::Nothing;
    for (request, answer) in requests {
        // Each answer is given once.
        let _ = answer.set(work.serve(request, store));
    }
}

impl Work {
    fn serve(
        &mut self,
        request: BackupRequest,
        store: &ObjectStore,
    ) -> Result<BackupReply, String> {
        match (request, &mut *self) {
            (BackupRequest::Create { place, key }, Self::Nothing) => {
                *self = Self::Writing(Box::new(Writer::create(Place::of(&place, store)?, &key)?));
            }
            (BackupRequest::Open { place, key }, Self::Nothing) => {
                let place = Place::of(&place, store)?;
                if archive::is_archive(&place)? {
                    let shown = place.shown();
                    return Err(format!(
                        "{shown} is an archive: say UNTIL '2026-11-25 12:00:00', or UNTIL EPOCH n"
                    ));
                }
                let mut backup = Backup::open(&place, &key)?;
                backup.verify()?;
                let contents = backup.contents.clone();
                *self = Self::Reading(Box::new(backup));
                return Ok(BackupReply::Contents(Box::new(contents)));
            }
            (BackupRequest::List(place), Self::Nothing) => {
                let place = Place::of(&place, store)?;
                return reader::list(&place).map(BackupReply::Listing);
            }
            (BackupRequest::Discard, _) => *self = Self::Nothing,
            (BackupRequest::Table(table), Self::Writing(writer)) => writer.table(table)?,
            (BackupRequest::Rows(rows), Self::Writing(writer)) => writer.rows(&rows)?,
            (BackupRequest::Finish(contents), Self::Writing(writer)) => {
                let size = writer.finish(&contents)?;
                *self = Self::Nothing;
                return Ok(BackupReply::Finished(size));
            }
            (BackupRequest::Rewind(table), Self::Reading(backup)) => backup.rewind(table)?,
            (BackupRequest::Next, Self::Reading(backup)) => {
                return backup.next().map(BackupReply::Rows);
            }
            (BackupRequest::PrepareArchive { place, key }, Self::Nothing) => {
                Place::of(&place, store)?.prepare()?;
                key::make(&key)?;
            }
            (BackupRequest::BeginChain { place, key, start }, Self::Nothing) => {
                let place = Place::of(&place, store)?;
                let writer = ChainWriter::begin(&place, &key, &start)?;
                return Ok(self.archiving(writer));
            }
            (BackupRequest::ResumeChain { place, key }, Self::Nothing) => {
                let writer = ChainWriter::resume(&Place::of(&place, store)?, &key)?;
                return Ok(self.archiving(writer));
            }
            (BackupRequest::Append(segment), Self::Archiving(writer)) => {
                writer.append(&segment)?;
                return Ok(BackupReply::Chain(Box::new(writer.chain.clone())));
            }
            (BackupRequest::OpenArchive { place, key }, Self::Nothing) => {
                let archive = Archive::open(&Place::of(&place, store)?, &key)?;
                let chains = archive.chains.iter().map(|of| of.chain.clone()).collect();
                *self = Self::Replaying(Box::new(archive));
                return Ok(BackupReply::Chains(chains));
            }
            (BackupRequest::Replay { chain, segments }, Self::Replaying(archive)) => {
                archive.replay(chain, segments.0, segments.1);
            }
            (BackupRequest::NextChanges, Self::Replaying(archive)) => {
                return archive.next().map(BackupReply::Changes);
            }
            (request, _) => return Err(format!("the backup is not ready for {request:?}")),
        }
        Ok(BackupReply::Done)
    }
}

impl Work {
    fn archiving(&mut self, writer: ChainWriter) -> BackupReply {
        let chain = writer.chain.clone();
        *self = Self::Archiving(Box::new(writer));
        BackupReply::Chain(Box::new(chain))
    }
}

#[cfg(test)]
mod tests;
