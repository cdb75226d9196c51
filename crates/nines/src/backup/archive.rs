//! Archives: chains of segments with committed changes, beside the full backups they begin at.
//!
//! ```text
//! chain-20261126T023000-1f2e3d4c/
//!     chain.json           what the chain is of, and how it is encrypted
//!     chain.check          the SHA-256 of chain.json; with a key, an HMAC-SHA256 of it too
//!     0000000001.changes   a segment
//!     base-…/              a full backup, as `format` says
//! ```
//!
//! A segment is eight bytes that say so, 16 random ones, a head (its length, then JSON), the
//! SHA-256 of that, portions (`format`), and the SHA-256 of all before. With a key each segment has
//! one of its own, made of the chain's and of the random bytes: portions are encrypted, and the
//! last checksum is an HMAC. A head tells epochs and times, and the checksum of the segment before.
//!
//! # Owns
//! Writing ([`ChainWriter`]), reading and checking ([`Archive`]) chains.
//! # Guarantees
//! A segment appears whole, or not at all, and never in the place of another. Whoever changes,
//! cuts, swaps or takes away one is found out; but for the last ones of a chain, which nobody has
//! to know of.
//! # Not here
//! What is in the portions (`sql`), what may be removed (`prune`).

use std::io::Read;

use aws_lc_rs::{digest, hmac};
use runtime::{hex, sha256_hex};
use serde::{Deserialize, Serialize};
use sql::{BackupKey, Chain, ChainBase, ChainStart, Segment, SegmentHead};

use super::format::{
    DataKey, Encryption, HEAD, MANIFEST, Position, check_of, open, seal, stored_length,
};
use super::key;
use super::place::Place;
use super::reader::{self, Backup};

/// The version of the form that is written and read.
const FORM: u32 = 1;
/// Files.
pub(super) const CHAIN: &str = "chain.json";
pub(super) const CHAIN_CHECK: &str = "chain.check";
/// The largest file of a chain's beginning.
const CHAIN_MAX: u64 = 1 << 20;
const MAGIC: &[u8; 8] = b"NINESCHG";
const SALT: usize = 16;
const SUM: usize = 32;
/// The number of the only file that a segment's key encrypts.
const FILE: u32 = 1;

/// What `chain.json` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Beginning {
    form: u32,
    id: String,
    start: ChainStart,
    encryption: Option<Encryption>,
}

/// The head of a segment as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredHead {
    #[serde(flatten)]
    head: SegmentHead,
    /// The checksum of the segment before; of the first one the chain's id.
    previous: String,
    /// The bytes of all segments before.
    before: u64,
}

/// The name of a segment's file.
pub(super) fn segment_name(number: u64) -> String {
    format!("{number:010}.changes")
}

/// The number of the segment that a file is of.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".changes")?;
    let is_number = digits.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// What checks a segment, and encrypts it.
struct SegmentKey {
    data: Option<DataKey>,
    sums: Option<hmac::Key>,
}

impl SegmentKey {
    fn new(key: Option<&DataKey>, salt: &[u8]) -> Result<Self, String> {
        let Some(key) = key else { return Ok(Self { data: None, sums: None }) };
        let (data, sums) = key.of_segment(salt)?;
        Ok(Self { data: Some(data), sums: Some(sums) })
    }

    fn sum(&self, bytes: &[u8]) -> [u8; SUM] {
        let mut sum = [0; SUM];
        match &self.sums {
            Some(key) => sum.copy_from_slice(hmac::sign(key, bytes).as_ref()),
            None => sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref()),
        }
        sum
    }
}

/// A chain that segments are added to.
pub(super) struct ChainWriter {
    place: Place,
    key: Option<DataKey>,
    pub(super) chain: Chain,
    /// The checksum of the last segment, or the chain's id.
    previous: String,
}

impl ChainWriter {
    /// Begins a chain in a place for archives, which is there.
    pub(super) fn begin(at: &Place, given: &BackupKey, start: &ChainStart) -> Result<Self, String> {
        let (key, encryption) = key::make(given)?.unzip();
        let id = hex(&key::random::<16>()?);
        let time = sql::shown_time(start.began);
        let time: String = time.chars().filter(char::is_ascii_digit).collect();
        let (day, hour) = time.split_at_checked(8).unwrap_or((&time, ""));
        let place = at.below(&format!("chain-{day}T{hour}-{}", &id[..8]));
        place.begin()?;
        let beginning = Beginning { form: FORM, id: id.clone(), start: start.clone(), encryption };
        let text = serde_json::to_vec_pretty(&beginning);
        let mut text = text.map_err(|why| format!("the chain cannot be described: {why}"))?;
        text.push(b'\n');
        let written = place
            .publish(CHAIN_CHECK, check_of(&text, key.as_ref()).as_bytes())
            .and_then(|()| place.publish(CHAIN, &text));
        if let Err(why) = written {
            let _ = place.remove(CHAIN_CHECK);
            place.leave();
            return Err(why);
        }
        let shown = place.shown();
        let chain =
            Chain { place: shown, id: id.clone(), start: start.clone(), ..Chain::default() };
        Ok(Self { place, key, chain, previous: id })
    }

    /// Goes on with a chain behind its last segment.
    pub(super) fn resume(at: &Place, given: &BackupKey) -> Result<Self, String> {
        let (beginning, key) = beginning(at, given)?;
        let names = at.names()?;
        let last = names.iter().filter_map(|name| segment_number(name)).max();
        let mut chain = Chain {
            place: at.shown(),
            id: beginning.id.clone(),
            start: beginning.start,
            bases: bases(at, &beginning.id, &names).0,
            ..Chain::default()
        };
        let mut previous = beginning.id;
        if let Some(number) = last {
            let read = ReadSegment::read(at, key.as_ref(), number)?;
            chain.count = number;
            chain.bytes = read.stored.before + read.bytes;
            chain.segments.push(read.stored.head.clone());
            previous = read.sum;
        }
        Ok(Self { place: at.clone(), key, chain, previous })
    }

    /// Adds a segment.
    pub(super) fn append(&mut self, segment: &Segment) -> Result<(), String> {
        let head = &segment.head;
        let last = self.chain.segments.last();
        let (number, through) = last.map_or_else(
            || (0, self.chain.start.first.saturating_sub(1)),
            |last| (last.number, last.through),
        );
        if head.number != number + 1 || head.first != through + 1 {
            let shown = self.place.shown_file(&segment_name(head.number));
            return Err(format!("{shown} would not follow segment {number}"));
        }
        let salt = key::random::<SALT>()?;
        let key = SegmentKey::new(self.key.as_ref(), &salt)?;
        let before = self.chain.bytes;
        let stored = StoredHead { head: head.clone(), previous: self.previous.clone(), before };
        let text = serde_json::to_vec(&stored);
        let text = text.map_err(|why| format!("the segment cannot be described: {why}"))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(salt);
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text);
        bytes.extend(plain_sum(&bytes));
        for (at, portion) in segment.portions.iter().enumerate() {
            let place = Position { file: FILE, portion: at as u64 + 1 };
            bytes.extend(seal(portion, place, key.data.as_ref())?);
        }
        let sum = key.sum(&bytes);
        bytes.extend(sum);
        self.place.publish_new(&segment_name(head.number), &bytes)?;
        self.previous = hex(&sum);
        self.chain.segments = vec![head.clone()];
        self.chain.count = head.number;
        self.chain.bytes = before + bytes.len() as u64;
        Ok(())
    }
}

/// A segment that was read and checked.
struct ReadSegment {
    stored: StoredHead,
    portions: std::vec::IntoIter<Vec<u8>>,
    /// Its checksum.
    sum: String,
    bytes: u64,
}

impl ReadSegment {
    /// All of it.
    fn read(at: &Place, key: Option<&DataKey>, number: u64) -> Result<Self, String> {
        let name = segment_name(number);
        let shown = at.shown_file(&name);
        let (mut file, size) = at.open(&name)?.ok_or_else(|| format!("{shown} is missing"))?;
        let damaged = |why: &str| format!("{shown} is damaged: {why}");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|why| damaged(&why.to_string()))?;
        let (stored, salt, mut rest) = head_of(&bytes, number).map_err(|why| damaged(&why))?;
        let key = SegmentKey::new(key, &salt)?;
        let Some((all, sum)) = bytes.split_last_chunk::<SUM>() else {
            return Err(damaged("it is cut"));
        };
        if key.sum(all) != *sum || rest.len() < SUM || bytes.len() as u64 != size {
            return Err(damaged("its checksum is another"));
        }
        rest = &rest[..rest.len() - SUM];
        let (mut portions, mut portion) = (Vec::new(), 1);
        while !rest.is_empty() {
            let raw = next_portion(&mut rest, portion, key.data.as_ref());
            portions.push(raw.map_err(|why| damaged(&why))?);
            portion += 1;
        }
        let (portions, bytes) = (portions.into_iter(), bytes.len() as u64);
        Ok(Self { stored, portions, sum: hex(sum), bytes })
    }

    /// The head alone.
    fn head(at: &Place, number: u64) -> Result<SegmentHead, String> {
        const FIRST: u64 = 64 << 10;
        let name = segment_name(number);
        let shown = at.shown_file(&name);
        let (file, _) = at.open(&name)?.ok_or_else(|| format!("{shown} is missing"))?;
        let mut bytes = Vec::new();
        let read = file.take(FIRST).read_to_end(&mut bytes);
        read.map_err(|why| format!("{shown}: {why}"))?;
        let head = head_of(&bytes, number);
        Ok(head.map_err(|why| format!("{shown} is damaged: {why}"))?.0.head)
    }
}

/// The first epoch of a segment; none if it is not there.
pub(super) fn first_epoch(at: &Place, number: u64) -> Result<Option<u64>, String> {
    if !at.has(&segment_name(number))? {
        return Ok(None);
    }
    ReadSegment::head(at, number).map(|head| Some(head.first))
}

fn plain_sum(bytes: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    sum
}

/// The head of a segment, its random bytes, and what comes behind.
fn head_of(bytes: &[u8], number: u64) -> Result<(StoredHead, [u8; SALT], &[u8]), String> {
    let cut = || "it is cut".to_owned();
    let rest = bytes.strip_prefix(MAGIC).ok_or("it is no segment of an archive")?;
    let (salt, rest) = rest.split_first_chunk::<SALT>().ok_or_else(cut)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (text, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
    let (sum, rest) = rest.split_first_chunk::<SUM>().ok_or_else(cut)?;
    // The checksum first: nothing else is believed before.
    if plain_sum(&bytes[..MAGIC.len() + SALT + 4 + length]) != *sum {
        return Err("the checksum of its head is another".to_owned());
    }
    let stored: StoredHead = serde_json::from_slice(text).map_err(|why| why.to_string())?;
    if stored.head.number != number {
        return Err(format!("it is segment {}", stored.head.number));
    }
    Ok((stored, *salt, rest))
}

fn next_portion(rest: &mut &[u8], portion: u64, key: Option<&DataKey>) -> Result<Vec<u8>, String> {
    let cut = || "it is cut".to_owned();
    let (head, behind) = rest.split_first_chunk::<HEAD>().ok_or_else(cut)?;
    let (stored, behind) = behind.split_at_checked(stored_length(*head)).ok_or_else(cut)?;
    *rest = behind;
    open(*head, stored.to_vec(), Position { file: FILE, portion }, key)
}

/// The id of a chain, and when it was begun: without its key.
pub(super) fn beginning_of(at: &Place) -> Result<ChainBeginning, String> {
    let (Beginning { id, start, .. }, ..) = plain_beginning(at)?;
    Ok(ChainBeginning { id, cluster: start.cluster, began: start.began })
}

/// What a chain is told from others by.
pub(super) struct ChainBeginning {
    /// Tells it from all others.
    pub(super) id: String,
    /// Tells its cluster from others.
    pub(super) cluster: String,
    /// When it was begun: microseconds since 1970 UTC.
    pub(super) began: i64,
}

/// What a chain begins with, checked as far as that goes without a key; its text, and its check.
fn plain_beginning(at: &Place) -> Result<(Beginning, Vec<u8>, Vec<u8>), String> {
    let shown = at.shown_file(CHAIN);
    let text = at.small(CHAIN, CHAIN_MAX)?.ok_or_else(|| format!("{shown} is missing"))?;
    let check = at.small(CHAIN_CHECK, CHAIN_MAX)?;
    let check = check.ok_or_else(|| format!("{} is missing", at.shown_file(CHAIN_CHECK)))?;
    if !check.starts_with(check_of(&text, None).as_bytes()) {
        return Err(format!("{shown} is damaged: it does not fit {CHAIN_CHECK}"));
    }
    let unreadable = |why| format!("{shown}: {why}");
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(unreadable)?;
    if value.get("form").and_then(serde_json::Value::as_u64) != Some(FORM.into()) {
        return Err(format!("{shown} is of a form that this version of Nines does not know"));
    }
    let beginning = serde_json::from_value(value).map_err(unreadable)?;
    Ok((beginning, text, check))
}

/// What a chain begins with, checked, and its key.
fn beginning(at: &Place, given: &BackupKey) -> Result<(Beginning, Option<DataKey>), String> {
    let (beginning, text, check) = plain_beginning(at)?;
    let key = key::find(given, beginning.encryption.as_ref());
    let key = key.map_err(|why| format!("{}: {why}", at.shown()))?;
    if check != check_of(&text, key.as_ref()).as_bytes() {
        return Err(format!(
            "{} was changed by somebody who does not have the key, or {CHAIN_CHECK} was",
            at.shown_file(CHAIN)
        ));
    }
    Ok((beginning, key))
}

/// The complete full backups of a chain by epoch, and what is wrong with others.
fn bases(at: &Place, chain: &str, names: &[String]) -> (Vec<ChainBase>, Vec<String>) {
    let (mut bases, mut faults) = (Vec::new(), Vec::new());
    for name in names.iter().filter(|name| name.starts_with("base-") && name.ends_with('/')) {
        let place = at.below(name);
        if !place.has(MANIFEST).unwrap_or(false) {
            continue;
        }
        match reader::manifest(&place) {
            Ok((manifest, _)) if manifest.set == set_of(chain) => {
                let (epoch, began) = (manifest.epoch, manifest.began);
                bases.push(ChainBase { place: place.shown(), epoch, began });
            }
            Ok(_) => faults.push(format!("{} is of another chain", place.shown())),
            Err(why) => faults.push(why),
        }
    }
    bases.sort_by_key(|base| base.epoch);
    (bases, faults)
}

/// What the manifests of a chain's full backups have as their set.
pub(super) fn set_of(chain: &str) -> String {
    sha256_hex(format!("chain\n{chain}").as_bytes())[..16].to_owned()
}

/// A chain that is read.
pub(super) struct ReadChain {
    pub(super) place: Place,
    key: Option<DataKey>,
    pub(super) chain: Chain,
}

/// Chains that are read.
pub(super) struct Archive {
    pub(super) chains: Vec<ReadChain>,
    /// Places of chains whose beginning is missing.
    headless: Vec<Place>,
    /// What is read now: the chain, the segments that follow, the one under way.
    replay: Option<(usize, std::ops::RangeInclusive<u64>, Option<ReadSegment>)>,
    /// The checksum of the segment before.
    previous: Option<String>,
}

/// Where there are chains: a place, or those that are in it, by name; and others that look like
/// one, without its beginning.
fn places(at: &Place) -> Result<(Vec<Place>, Vec<Place>), String> {
    let names = at.names()?;
    if names.iter().any(|name| name == CHAIN || name == CHAIN_CHECK) {
        return Ok((vec![at.clone()], Vec::new()));
    }
    let is_chain = |name: &&String| name.starts_with("chain-") && name.ends_with('/');
    let chains = names.iter().filter(is_chain).map(|name| at.below(name));
    Ok(chains.partition(|place| place.has(CHAIN).unwrap_or(true)))
}

/// Whether there are segments in a place. One that has just been made has none.
fn has_segments(place: &Place) -> bool {
    let names = place.names().unwrap_or_default();
    names.iter().any(|name| segment_number(name).is_some())
}

/// Whether a place is one for archives, or a chain of one.
pub(super) fn is_archive(at: &Place) -> Result<bool, String> {
    // What is not there or cannot be read is told by whoever reads it as a backup.
    Ok(!places(at).unwrap_or_default().0.is_empty())
}

impl Archive {
    /// Reads what chains there are.
    ///
    /// # Errors
    /// When there are none, or the beginning of one cannot be read.
    pub(super) fn open(at: &Place, given: &BackupKey) -> Result<Self, String> {
        let mut chains = Vec::new();
        let (places, mut headless) = places(at)?;
        headless.retain(has_segments);
        for place in places {
            let (beginning, key) = beginning(&place, given)?;
            let names = place.names()?;
            let (bases, faults) = bases(&place, &beginning.id, &names);
            let mut chain = Chain {
                place: place.shown(),
                id: beginning.id,
                start: beginning.start,
                bases,
                faults: faults.into_iter().map(|why| (0, why)).collect(),
                ..Chain::default()
            };
            for number in names.iter().filter_map(|name| segment_number(name)) {
                match ReadSegment::head(&place, number) {
                    Ok(head) => chain.segments.push(head),
                    Err(why) => chain.faults.push((number, why)),
                }
            }
            chain.segments.sort_by_key(|head| head.number);
            chain.count = chain.segments.len() as u64;
            chains.push(ReadChain { place, key, chain });
        }
        chains.sort_by_key(|of| of.chain.start.began);
        if chains.is_empty() {
            return Err(format!("{} has no chain of an archive", at.shown()));
        }
        Ok(Self { chains, headless, replay: None, previous: None })
    }

    /// Begins to read segments of a chain.
    pub(super) fn replay(&mut self, chain: usize, first: u64, last: u64) {
        self.replay = Some((chain, first..=last, None));
        self.previous = None;
    }

    /// The next portion, of a segment whose every byte was checked; none after the last.
    pub(super) fn next(&mut self) -> Result<Option<(SegmentHead, Vec<u8>)>, String> {
        let Some((chain, numbers, current)) = &mut self.replay else { return Ok(None) };
        loop {
            if let Some(segment) = current
                && let Some(portion) = segment.portions.next()
            {
                return Ok(Some((segment.stored.head.clone(), portion)));
            }
            let Some(number) = numbers.next() else { return Ok(None) };
            let of = self.chains.get(*chain).ok_or("there is no such chain")?;
            let read = ReadSegment::read(&of.place, of.key.as_ref(), number)?;
            let before = match number {
                1 => Some(&of.chain.id),
                _ => self.previous.as_ref(),
            };
            if before.is_some_and(|before| *before != read.stored.previous) {
                let shown = of.place.shown_file(&segment_name(number));
                return Err(format!("{shown} does not follow the segment before it"));
            }
            self.previous = Some(read.sum.clone());
            *current = Some(read);
        }
    }

    /// Reads and checks every byte, of full backups too; how many files and bytes there are.
    pub(super) fn verify(&mut self, given: &BackupKey) -> Result<(u64, u64), String> {
        if let Some(headless) = self.headless.first() {
            return Err(format!(
                "{} has segments, and no {CHAIN}: that was lost, or a `prune` was ended in the \
                 middle, and the directory can go",
                headless.shown()
            ));
        }
        let (mut files, mut bytes) = (0, 0);
        for at in 0..self.chains.len() {
            let of = &self.chains[at];
            if let Some((_, why)) = of.chain.faults.first() {
                return Err(why.clone());
            }
            for base in &of.chain.bases {
                let name = base.place.rsplit('/').next().unwrap_or_default();
                let mut backup = Backup::open(&of.place.below(name), given)?;
                backup.verify()?;
                if backup.contents.chain.as_ref() != Some(&of.chain.id) {
                    return Err(format!("{} is of another chain", base.place));
                }
                files += backup.manifest.files.len() as u64 + 2;
                bytes += backup.manifest.files.values().map(|entry| entry.bytes).sum::<u64>();
            }
            let segments = &of.chain.segments;
            // What `prune` takes away no full backup needs.
            let lacks = |first: &SegmentHead| {
                let base = of.chain.bases.iter().find(|base| base.epoch + 1 < first.first);
                base.filter(|_| first.number > 1).map(|base| (first.number - 1, base))
            };
            if let Some((missing, base)) = segments.first().and_then(lacks) {
                let missing = of.place.shown_file(&segment_name(missing));
                let (shown, epoch) = (&base.place, base.epoch);
                return Err(format!("{missing} is missing, and {shown} is of epoch {epoch}"));
            }
            for pair in segments.windows(2) {
                if pair[1].number != pair[0].number + 1 {
                    let missing = segment_name(pair[0].number + 1);
                    return Err(format!("{} is missing", of.place.shown_file(&missing)));
                }
                if pair[1].first != pair[0].through + 1 {
                    let shown = of.place.shown_file(&segment_name(pair[1].number));
                    return Err(format!("{shown} leaves epochs out"));
                }
            }
            let ends = segments.first().zip(segments.last());
            if let Some((first, last)) = ends.map(|(first, last)| (first.number, last.number)) {
                self.replay(at, first, last);
                while let Some((_, portion)) = self.next()? {
                    bytes += portion.len() as u64;
                }
                files += last - first + 1;
            }
            files += 2;
        }
        Ok((files, bytes))
    }
}
