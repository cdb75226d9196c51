//! RESTORE … UNTIL: which full backup and which changes make the state of a moment.
//!
//! # Guarantees
//! The moment is the newest epoch that ended at or before the time that was named. The full backup
//! is the newest one of the same chain that is not later; all epochs between are there, and every
//! byte of them was checked before anything is changed.
//! # Not here
//! Applying the changes (`replay`).

use std::collections::{BTreeMap, BTreeSet};

use model::TableId;
use sql_expression::SqlError;
use sql_parser::ast;
use sqltype::TimeZone;
use sqltype::temporal::parse_date_time;

use super::source::At;
use crate::backup::archive::log::{Definitions, Reader, Record};
use crate::backup::time::shown_moment;
use crate::backup_jobs::chain::{Chain, ChainBase, SegmentHead};
use crate::backup_jobs::host::{BackupFiles, BackupReply, BackupRequest, Contents, done, failed};
use crate::kernel::Kernel;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Epoch(u64),
    /// Microseconds since 1970 UTC.
    Time(u64),
}

impl Moment {
    pub(super) fn of(until: &ast::Until, zone: &TimeZone) -> Result<Self, SqlError> {
        let ast::Until::Time(text) = until else {
            let ast::Until::Epoch(epoch) = until else { unreachable!("there are two") };
            return Ok(Self::Epoch(*epoch));
        };
        let wrong = || {
            let text = String::from_utf8_lossy(text);
            failed(&format!(
                "'{text}' is no time: UNTIL '2026-11-25 12:00:00.000', or UNTIL EPOCH n"
            ))
        };
        let parsed = parse_date_time(text).filter(|parsed| !parsed.garbage).ok_or_else(wrong)?;
        let zone = parsed.offset.and_then(TimeZone::of_offset).unwrap_or_else(|| zone.clone());
        let micros = zone.moment(parsed.value).ok_or_else(wrong)?;
        u64::try_from(micros).map(Self::Time).map_err(|_| wrong())
    }

    fn shown(self) -> String {
        match self {
            Self::Epoch(epoch) => format!("epoch {epoch}"),
            Self::Time(micros) => format!("{} UTC", shown_moment(micros as i64)),
        }
    }

    /// Whether a segment reaches it.
    fn is_reached(self, head: &SegmentHead) -> bool {
        match self {
            Self::Epoch(epoch) => head.through >= epoch,
            Self::Time(micros) => head.ended >= micros,
        }
    }
}

/// What the state of a moment is made of.
#[derive(Debug)]
pub(super) struct Chosen {
    /// The chain's place in the list, and its id.
    pub(super) chain: usize,
    pub(super) id: String,
    /// The newest epoch of the state.
    pub(super) epoch: u64,
    pub(super) base: ChainBase,
    /// The segments between, first and last; none if the full backup is of that epoch.
    pub(super) segments: Option<(u64, u64)>,
}

/// The archive that is read.
pub(super) struct Archive<'a> {
    pub(super) kernel: Kernel,
    pub(super) files: &'a dyn BackupFiles,
}

impl Archive<'_> {
    /// Finds what the state of a moment is made of.
    ///
    /// # Errors
    /// For a moment that no chain has, and for chains with a gap before it.
    pub(super) async fn choose(&self, at: At<'_>, moment: Moment) -> Result<Chosen, SqlError> {
        let At { place, key } = at;
        let open = BackupRequest::OpenArchive { place: place.to_owned(), key: key.clone() };
        let BackupReply::Chains(chains) = done(&self.kernel, self.files, open).await? else {
            return Err(failed("the host tells nothing of the archive"));
        };
        let clusters: BTreeSet<&str> =
            chains.iter().map(|chain| chain.start.cluster.as_str()).collect();
        if clusters.len() > 1 {
            return Err(failed(&format!(
                "{place} has chains of several clusters: name the directory of one chain"
            )));
        }
        // A later chain begins with a full backup that is later than what an earlier one has.
        for (at, chain) in chains.iter().enumerate().rev() {
            if let Some(epoch) = self.newest_epoch(at, chain, moment).await?
                && let Some(base) = chain.bases.iter().rfind(|base| base.epoch <= epoch)
            {
                let segments = between(chain, base.epoch, epoch)?;
                let (id, base) = (chain.id.clone(), base.clone());
                return Ok(Chosen { chain: at, id, epoch, base, segments });
            }
        }
        Err(outside(place, &chains, moment))
    }

    /// The newest epoch of a chain that ended at or before a moment which it has reached.
    async fn newest_epoch(
        &self,
        at: usize,
        chain: &Chain,
        moment: Moment,
    ) -> Result<Option<u64>, SqlError> {
        let Some(reached) = chain.segments.iter().position(|head| moment.is_reached(head)) else {
            return Ok(None);
        };
        let time = match moment {
            Moment::Epoch(epoch)
                if epoch < chain.segments[reached].first.saturating_sub(1) && reached > 0 =>
            {
                return Ok(None);
            }
            Moment::Epoch(epoch) => return Ok(Some(epoch)),
            Moment::Time(time) => time,
        };
        // The epoch before it may have ended in an earlier segment.
        for head in chain.segments[..=reached].iter().rev() {
            let mut newest = None;
            let mut records = self.replay(at, head.number, head.number).await?;
            while let Some((_, portion)) = records.next().await? {
                let mut reader = Reader::new(&portion);
                while let Some(record) = reader.next()? {
                    if let Record::Ended(epoch, ended) = record
                        && ended <= time
                    {
                        newest = newest.max(Some(epoch));
                    }
                }
            }
            if newest.is_some() {
                return Ok(newest);
            }
        }
        Ok(None)
    }

    /// Reads segments of a chain, whose every byte is checked before.
    pub(super) async fn replay(
        &self,
        chain: usize,
        first: u64,
        last: u64,
    ) -> Result<Records<'_>, SqlError> {
        let segments = (first, last);
        done(&self.kernel, self.files, BackupRequest::Replay { chain, segments }).await?;
        Ok(Records { kernel: self.kernel.clone(), files: self.files })
    }

    /// What is defined at the moment, as it is in place of what the full backup says; and the
    /// tables of which changes were lost.
    pub(super) async fn defined(
        &self,
        chosen: &Chosen,
        contents: &Contents,
    ) -> Result<(Definitions, BTreeSet<TableId>), SqlError> {
        let mut defined = Definitions {
            databases: contents.databases.clone(),
            tables: contents.tables.clone(),
            views: contents.views.clone(),
            accounts: contents.accounts.clone(),
        };
        let mut lost = BTreeSet::new();
        let Some((first, last)) = chosen.segments else { return Ok((defined, lost)) };
        // Tables with changes up to the moment.
        let mut touched = BTreeMap::new();
        let mut later: Option<(u64, u64, Box<Definitions>)> = None;
        let mut records = self.replay(chosen.chain, first, last).await?;
        while let Some((_, portion)) = records.next().await? {
            let (mut reader, mut epoch) = (Reader::new(&portion), 0);
            while let Some(record) = reader.next()? {
                let counts = epoch > chosen.base.epoch && epoch <= chosen.epoch;
                match record {
                    Record::Epoch(next) => epoch = next,
                    Record::Change { table, .. } if counts => {
                        touched.insert(table, epoch);
                    }
                    Record::Lost(table) if counts => {
                        lost.insert(table);
                    }
                    Record::Definitions { before, epoch, definitions } => {
                        if epoch > chosen.base.epoch && epoch <= chosen.epoch {
                            defined = *definitions;
                        } else if epoch > chosen.epoch && before < chosen.epoch {
                            later.get_or_insert((before, epoch, definitions));
                        }
                    }
                    _ => {}
                }
            }
        }
        // A definition was changed at about the moment. Before it, unless a table that came with it
        // has rows by then. Where it is not known well when it was changed, neither is right.
        if let Some((before, from, later)) = later {
            if from.saturating_sub(before) > KNOWN_WELL {
                return Err(failed(&format!(
                    "definitions were changed between the epochs {before} and {from}, and the \
                     archive does not know when: restore the state of epoch {before} or before, or \
                     of epoch {from} or later"
                )));
            }
            let ids = |of: &Definitions| -> BTreeSet<u32> {
                of.tables.iter().filter_map(|table| Some(table.raw.as_ref()?.id)).collect()
            };
            let (now, then) = (ids(&defined), ids(&later));
            let is_new = |table: &&TableId| !now.contains(&table.0) && then.contains(&table.0);
            if touched.keys().any(|table| is_new(&table)) {
                defined = *later;
            }
        }
        Ok((defined, lost))
    }
}

/// Definitions that were changed within so many epochs (5 s) are taken to be of their end.
const KNOWN_WELL: u64 = 250;

/// Changes that are read portion by portion.
pub(super) struct Records<'a> {
    kernel: Kernel,
    files: &'a dyn BackupFiles,
}

impl Records<'_> {
    /// The next portion, with its segment; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<(SegmentHead, Vec<u8>)>, SqlError> {
        match done(&self.kernel, self.files, BackupRequest::NextChanges).await? {
            BackupReply::Changes(changes) => Ok(changes),
            _ => Err(failed("the host gives no changes")),
        }
    }
}

/// The segments with the epochs behind one, to another.
fn between(chain: &Chain, from: u64, to: u64) -> Result<Option<(u64, u64)>, SqlError> {
    if from == to {
        return Ok(None);
    }
    let fault = |number: u64| -> SqlError {
        let known = chain.faults.iter().find(|(of, _)| *of == number);
        let why = known.map_or_else(
            || format!("{}: segment {number} is missing", chain.place),
            |(_, why)| why.clone(),
        );
        failed(&format!("the archive has a gap behind epoch {from}: {why}"))
    };
    let mut next = from.saturating_add(1);
    let mut numbers: Option<(u64, u64)> = None;
    for head in chain.segments.iter().filter(|head| head.through > from) {
        if let Some((_, last)) = numbers
            && head.number != last.saturating_add(1)
        {
            return Err(fault(last.saturating_add(1)));
        }
        if head.first > next {
            return Err(fault(head.number.saturating_sub(1)));
        }
        numbers = Some((numbers.map_or(head.number, |(first, _)| first), head.number));
        next = head.through.saturating_add(1);
        if head.through >= to {
            return Ok(numbers);
        }
    }
    Err(fault(numbers.map_or(1, |(_, last)| last.saturating_add(1))))
}

/// Says what an archive has, as a moment is not in it.
fn outside(place: &str, chains: &[Chain], moment: Moment) -> SqlError {
    let shown = moment.shown();
    let mut text = format!("the archive in {place} has no state of {shown}.");
    for chain in chains {
        let ended = shown_moment(chain.ended() as i64);
        match chain.bases.first() {
            Some(base) => {
                text += &format!(
                    " {} goes from epoch {} to {}, {ended} UTC.",
                    chain.place,
                    base.epoch,
                    chain.through()
                );
            }
            None => text += &format!(" {} has no full backup yet.", chain.place),
        }
        for (_, why) in &chain.faults {
            text += &format!(" {why}.");
        }
    }
    failed(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64, first: u64, through: u64) -> SegmentHead {
        SegmentHead { number, first, through, ended: through * 10, end: None }
    }

    #[test]
    fn a_gap_is_noticed_where_it_matters() {
        let segments = vec![head(1, 10, 19), head(2, 20, 29), head(4, 40, 49)];
        let chain = Chain { place: "/a".to_owned(), segments, ..Chain::default() };
        assert_eq!(between(&chain, 15, 15).unwrap(), None);
        assert_eq!(between(&chain, 15, 19).unwrap(), Some((1, 1)));
        assert_eq!(between(&chain, 19, 25).unwrap(), Some((2, 2)));
        assert_eq!(between(&chain, 9, 29).unwrap(), Some((1, 2)));
        assert_eq!(between(&chain, 39, 40).unwrap(), Some((4, 4)));
        for (from, to) in [(15, 45), (29, 45), (5, 15), (45, 60)] {
            let why = between(&chain, from, to).unwrap_err();
            assert!(why.message().contains("gap"), "{from} to {to}: {}", why.message());
        }
        assert!(between(&chain, 15, 45).unwrap_err().message().contains("segment 3 is missing"));
    }

    #[test]
    fn times_are_those_of_the_session() {
        let time = |text: &str, zone: &TimeZone| {
            Moment::of(&ast::Until::Time(text.as_bytes().into()), zone)
        };
        let utc = time("2026-11-25 12:00:00.250", &TimeZone::UTC).unwrap();
        assert_eq!(utc, Moment::Time(1_795_608_000_250_000));
        let east = TimeZone::of_offset(60).unwrap();
        assert_eq!(time("2026-11-25 13:00:00.25", &east).unwrap(), utc);
        assert_eq!(time("2026-11-25 13:00:00.25+01:00", &TimeZone::UTC).unwrap(), utc);
        for wrong in ["", "noon", "2026-11-25 12:00:00 or so", "1950-01-01"] {
            assert!(time(wrong, &TimeZone::UTC).is_err(), "{wrong}");
        }
    }
}
