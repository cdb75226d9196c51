//! The files of backups on the host of the SQL node: they outlive its process.
//!
//! # Owns
//! [`Host`], which keeps backups in memory and fails now and then, as disks do.
//! # Guarantees
//! As production: a backup is one when it is finished. What a process leaves that dies is none.
//! # Not here
//! The form of the files, their checksums and keys: tests of `nines` and of processes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::{
    BackupAnswer, BackupFiles, BackupHost, BackupReply, BackupRequest, Chain, ChainBase, Contents,
    Segment, SegmentHead,
};
use stdx::Prng;

/// What a full disk says.
pub(super) const FULL: &str = "the disk is full";
/// Chance in a hundred that there is no room for a request now.
const BUSY_PERCENT: u64 = 30;
/// Chance in a thousand that something cannot be written.
const FULL_PER_MILLE: u64 = 5;
/// Chance in a hundred that whoever goes without a word leaves what it has written.
const LEFT_PERCENT: u64 = 50;

/// The directories of a host, as all lives of its SQL node find them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    /// Decides what fails.
    prng: Prng,
    backups: BTreeMap<String, Saved>,
    /// Chains of archives with their segments, by place.
    chains: BTreeMap<String, (Chain, Vec<Segment>)>,
}

/// A backup, or what there is of one.
#[derive(Clone, Debug, Default)]
struct Saved {
    /// It is finished.
    contents: Option<Box<Contents>>,
    rows: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Default for Disk {
    fn default() -> Self {
        Self { prng: Prng::new(0), backups: BTreeMap::new(), chains: BTreeMap::new() }
    }
}

impl Host {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides what happens to files from now on.
    pub(super) fn seed(&self, seed: u64) {
        self.disk().prng = Prng::new(seed ^ 0xBAC);
    }

    /// Whether anything is in this directory.
    pub(super) fn has(&self, place: &str) -> bool {
        self.disk().backups.contains_key(place)
    }

    /// The operator removes a directory, with all below.
    pub(super) fn remove(&self, place: &str) {
        let below = format!("{place}/");
        let stays = |at: &String| at != place && !at.starts_with(&below);
        let mut disk = self.disk();
        disk.backups.retain(|at, _| stays(at));
        disk.chains.retain(|at, _| stays(at));
    }
}

impl BackupHost for Host {
    fn warn(&self, _: &str) {}

    fn begin(&self) -> Option<Box<dyn BackupFiles>> {
        Some(Box::new(Files { host: self.clone(), work: RefCell::default() }))
    }
}

/// What a thread of the SQL node would be at work on.
#[derive(Debug, Default)]
enum Work {
    #[default]
    Nothing,
    Writing {
        place: String,
        table: usize,
    },
    Reading {
        saved: Saved,
        table: usize,
        portion: usize,
    },
    Archiving {
        place: String,
    },
    Replaying {
        chains: Vec<(Chain, Vec<Segment>)>,
        /// Portions that are to be given still, the next one last.
        left: Vec<(SegmentHead, Vec<u8>)>,
    },
}

#[derive(Debug)]
struct Files {
    host: Host,
    work: RefCell<Work>,
}

impl BackupFiles for Files {
    fn ask(&self, request: BackupRequest) -> Result<BackupAnswer, BackupRequest> {
        let mut disk = self.host.disk();
        if disk.prng.percent(BUSY_PERCENT) {
            return Err(request);
        }
        let answer = BackupAnswer::default();
        let served = self.work.borrow_mut().serve(request, &mut disk);
        answer.set(served).expect("an answer is given once");
        Ok(answer)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Work::Writing { place, .. } = &*self.work.borrow() {
            let mut disk = self.host.disk();
            if !disk.prng.percent(LEFT_PERCENT) {
                disk.backups.remove(place);
            }
        }
    }
}

impl Work {
    fn serve(&mut self, request: BackupRequest, disk: &mut Disk) -> Result<BackupReply, String> {
        let writes = matches!(
            request,
            BackupRequest::Create { .. }
                | BackupRequest::Rows(_)
                | BackupRequest::Finish(_)
                | BackupRequest::BeginChain { .. }
                | BackupRequest::Append(_)
        );
        if writes && disk.prng.below(1_000) < FULL_PER_MILLE {
            return Err(FULL.to_owned());
        }
        match (request, &mut *self) {
            (BackupRequest::Create { place, .. }, Self::Nothing) => {
                if disk.backups.contains_key(&place) {
                    return Err(format!("{place} is not empty"));
                }
                disk.backups.insert(place.clone(), Saved::default());
                *self = Self::Writing { place, table: 0 };
            }
            (BackupRequest::Table(at), Self::Writing { place, table }) => {
                *table = at;
                written(disk, place)?.rows.insert(at, Vec::new());
            }
            (BackupRequest::Rows(rows), Self::Writing { place, table }) => {
                written(disk, place)?.rows.entry(*table).or_default().push(rows);
            }
            (BackupRequest::Finish(contents), Self::Writing { place, .. }) => {
                written(disk, place)?.contents = Some(contents);
                *self = Self::Nothing;
                return Ok(BackupReply::Finished(1));
            }
            (BackupRequest::Discard, work) => {
                if let Self::Writing { place, .. } = work {
                    disk.backups.remove(place);
                }
                *work = Self::Nothing;
            }
            (BackupRequest::Open { place, .. }, Self::Nothing) => {
                let saved = disk.backups.get(&place).cloned().unwrap_or_default();
                let contents = saved.contents.clone();
                let contents = contents.ok_or_else(|| format!("{place} is no backup"))?;
                *self = Self::Reading { saved, table: 0, portion: 0 };
                return Ok(BackupReply::Contents(contents));
            }
            (BackupRequest::Rewind(at), Self::Reading { table, portion, .. }) => {
                (*table, *portion) = (at, 0);
            }
            (BackupRequest::Next, Self::Reading { saved, table, portion }) => {
                let found = saved.rows.get(table).and_then(|rows| rows.get(*portion)).cloned();
                *portion += 1;
                return Ok(BackupReply::Rows(found));
            }
            (BackupRequest::List(_), _) => return Ok(BackupReply::Listing(Vec::new())),
            (request, _) => return self.serve_archive(request, disk),
        }
        Ok(BackupReply::Done)
    }

    fn serve_archive(
        &mut self,
        request: BackupRequest,
        disk: &mut Disk,
    ) -> Result<BackupReply, String> {
        match (request, &mut *self) {
            (BackupRequest::PrepareArchive { .. }, _) => {}
            (BackupRequest::BeginChain { place, start, .. }, Self::Nothing) => {
                let place = format!("{place}/chain-{}", disk.chains.len());
                let chain =
                    Chain { place: place.clone(), id: place.clone(), start, ..Chain::default() };
                disk.chains.insert(place.clone(), (chain.clone(), Vec::new()));
                *self = Self::Archiving { place };
                return Ok(BackupReply::Chain(Box::new(chain)));
            }
            (BackupRequest::ResumeChain { place, .. }, Self::Nothing) => {
                let chain = chain(disk, &place).ok_or_else(|| format!("{place} is gone"))?.0;
                *self = Self::Archiving { place };
                return Ok(BackupReply::Chain(Box::new(chain)));
            }
            (BackupRequest::Append(segment), Self::Archiving { place }) => {
                let gone = || format!("{place} is gone");
                let (chain, segments) = disk.chains.get_mut(place).ok_or_else(gone)?;
                let last = segments.last().map(|last| (last.head.number, last.head.through));
                let (number, through) = last.unwrap_or((0, chain.start.first - 1));
                if segment.head.number != number + 1 || segment.head.first != through + 1 {
                    return Err(format!("segment {number}: it is there already"));
                }
                segments.push(segment);
                chain.count += 1;
                return Ok(BackupReply::Chain(Box::new(chain.clone())));
            }
            (BackupRequest::OpenArchive { place, .. }, Self::Nothing) => {
                let below = format!("{place}/");
                let places: Vec<String> =
                    disk.chains.keys().filter(|at| at.starts_with(&below)).cloned().collect();
                let mut chains: Vec<(Chain, Vec<Segment>)> =
                    places.iter().filter_map(|place| chain(disk, place)).collect();
                chains.sort_by_key(|(chain, _)| chain.start.began);
                let told = chains.iter().map(|(chain, _)| chain.clone()).collect();
                *self = Self::Replaying { chains, left: Vec::new() };
                return Ok(BackupReply::Chains(told));
            }
            (BackupRequest::Replay { chain, segments }, Self::Replaying { chains, left }) => {
                let numbers = segments.0..=segments.1;
                let wanted = |segment: &&Segment| numbers.contains(&segment.head.number);
                let of_chain = chains[chain].1.iter().filter(wanted);
                *left = of_chain
                    .flat_map(|of| {
                        of.portions.iter().map(|portion| (of.head.clone(), portion.clone()))
                    })
                    .collect();
                left.reverse();
            }
            (BackupRequest::NextChanges, Self::Replaying { left, .. }) => {
                return Ok(BackupReply::Changes(left.pop()));
            }
            (request, work) => panic!("{request:?} while {work:?}"),
        }
        Ok(BackupReply::Done)
    }
}

/// A chain with its segments, as one finds it who reads it.
fn chain(disk: &Disk, place: &str) -> Option<(Chain, Vec<Segment>)> {
    let (mut chain, segments) = disk.chains.get(place)?.clone();
    chain.segments = segments.iter().map(|segment| segment.head.clone()).collect();
    let below = format!("{place}/");
    let complete = disk.backups.iter().filter(|(at, _)| at.starts_with(&below));
    chain.bases = complete
        .filter_map(|(at, saved)| {
            let contents = saved.contents.as_ref()?;
            let (place, epoch, began) = (at.clone(), contents.epoch, contents.began);
            Some(ChainBase { place, epoch, began })
        })
        .collect();
    chain.bases.sort_by_key(|base| base.epoch);
    Some((chain, segments))
}

fn written<'a>(disk: &'a mut Disk, place: &str) -> Result<&'a mut Saved, String> {
    disk.backups.get_mut(place).ok_or_else(|| format!("{place} is gone"))
}
