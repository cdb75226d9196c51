//! The files of a worker: segments of its redo log, checkpoints.

use std::path::{Path, PathBuf};

use model::Incarnation;
use ondisk::checkpoint::CheckpointReader;
use ondisk::redo::{Record, SegmentEnd, SegmentReader};
use ondisk::{Damage, FileName};

use super::{Inspection, read_pieces};

/// What the segments in a directory have to do with each other.
#[derive(Debug, Default)]
pub(super) struct WorkerFiles {
    /// Path, life of the writer, and whether it ends as a segment does that has a successor; in
    /// the order of their numbers.
    segments: Vec<(PathBuf, Incarnation, bool)>,
}

impl WorkerFiles {
    /// Segments that end before the same life went on in the next one: something is lost between.
    pub(super) fn gaps(self) -> Vec<(PathBuf, String)> {
        let pairs = self.segments.windows(2);
        let broken = pairs.filter(|pair| !pair[0].2 && pair[0].1 == pair[1].1);
        let why = "it has no end, and the same life went on in the next segment".to_string();
        broken.map(|pair| (pair[0].0.clone(), why.clone())).collect()
    }
}

/// What was counted in a segment.
#[derive(Debug, Default)]
struct Counts {
    puts: u64,
    deletes: u64,
    others: u64,
    bytes: u64,
    saved: Option<model::Epoch>,
}

impl Inspection<'_> {
    /// Looks at a file if its name is one of a worker's.
    pub(super) fn worker_file(
        &mut self,
        path: &Path,
        of_directory: &mut WorkerFiles,
    ) -> Result<bool, String> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(name) = FileName::parse(name) else { return Ok(false) };
        match name {
            FileName::Redo(_) => self.segment(path, of_directory)?,
            FileName::Checkpoint { .. } => self.checkpoint(path)?,
            FileName::Watermark => self.watermark(path)?,
            FileName::Draft { .. } => {
                self.line(path, "a checkpoint that was not finished, ignored by a restart");
            }
        }
        Ok(true)
    }

    fn segment(&mut self, path: &Path, of_directory: &mut WorkerFiles) -> Result<(), String> {
        self.files += 1;
        let (mut reader, mut counts) = (SegmentReader::new(), Counts::default());
        let mut announced = false;
        let file = self.open(path)?;
        read_pieces(path, file, |bytes| {
            reader.push(bytes);
            if !announced && let Some(header) = reader.header() {
                announced = true;
                let header = header.to_string();
                self.line(path, &header);
            }
            while let Some((offset, record)) = reader.next_record() {
                counts.take(&record);
                if self.all {
                    self.detail(offset, &record.to_string());
                }
            }
            true
        })?;
        let end = reader.finish();
        let life = reader.header().map(|header| header.incarnation);
        if let Some(life) = life {
            let sealed = end == SegmentEnd::Sealed;
            of_directory.segments.push((path.to_path_buf(), life, sealed));
        }
        let counts = counts.to_string();
        match end {
            SegmentEnd::Sealed => self.line(path, &format!("{counts}; complete")),
            SegmentEnd::Open => self.line(path, &format!("{counts}; ends with the file")),
            SegmentEnd::Damaged(damage) if reader.proves_loss() => {
                self.broken(path, &format!("{counts}; {damage}, though it had been synced"));
            }
            SegmentEnd::Damaged(damage) if life.is_some() => {
                self.line(path, &format!("{counts}; what a crash left begins at {damage}"));
            }
            // A segment that was begun when the node died has no header yet.
            SegmentEnd::Damaged(damage) if is_unwritten(&damage) => {
                self.line(path, "a segment that was not begun, ignored by a restart");
            }
            SegmentEnd::Damaged(damage) => self.broken(path, &damage.to_string()),
        }
        Ok(())
    }

    fn checkpoint(&mut self, path: &Path) -> Result<(), String> {
        self.files += 1;
        let (mut reader, mut damage) = (CheckpointReader::new(), None);
        let mut announced = false;
        let file = self.open(path)?;
        read_pieces(path, file, |bytes| {
            reader.push(bytes);
            damage = self.blocks(path, &mut reader, &mut announced).err();
            damage.is_none()
        })?;
        let end = match damage {
            Some(damage) => Err(damage),
            None => reader.finish().map(|(_, footer)| footer.to_string()),
        };
        match end {
            Ok(footer) => self.line(path, &footer),
            Err(damage) => self.broken(path, &damage.to_string()),
        }
        Ok(())
    }

    /// Takes the blocks that have come in.
    fn blocks(
        &mut self,
        path: &Path,
        reader: &mut CheckpointReader,
        announced: &mut bool,
    ) -> Result<(), Damage> {
        if !*announced && let Some(header) = reader.header()? {
            *announced = true;
            let header = header.to_string();
            self.line(path, &header);
        }
        while let Some(mut slots) = reader.next_block()? {
            while let Some((row_id, epoch, row)) = slots.next_slot()? {
                if self.all {
                    let what = match row {
                        Some(row) => format!("{epoch}, {} bytes", row.len()),
                        None => format!("{epoch}, empty"),
                    };
                    self.detail(row_id.0.into(), &what);
                }
            }
        }
        Ok(())
    }
}

/// Whether a header is missing in a way that a crash explains.
fn is_unwritten(damage: &Damage) -> bool {
    matches!(damage.kind, ondisk::DamageKind::Blank | ondisk::DamageKind::Cut)
}

impl Counts {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Put { row, .. } => {
                self.puts += 1;
                self.bytes += row.len() as u64;
            }
            Record::Delete { .. } => self.deletes += 1,
            Record::EpochEnd(mark) => self.saved = Some(mark.epoch),
            Record::SegmentEnd => {}
            _ => self.others += 1,
        }
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Counts { puts, deletes, others, bytes, saved } = self;
        write!(f, "{puts} puts with {bytes} bytes, {deletes} deletes, {others} other records")?;
        match saved {
            Some(epoch) => write!(f, ", saved {epoch}"),
            None => write!(f, ", nothing saved"),
        }
    }
}
