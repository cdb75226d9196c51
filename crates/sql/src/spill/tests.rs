//! What goes to temporary files comes back, and what fails says so.

use sqltype::{Date, DateTime, Datum, Decimal, Time};
use vector::{Block, Kind, ScalarRef, Vector};

use super::blocks::BlockWriter;
use super::in_memory::{Faults, MemoryFiles};
use super::partitions::{FAN_OUT, RowPartitions, partition_of};
use super::rows::RowWriter;
use super::*;
use crate::memory::QueryMemory;

fn account(files: &MemoryFiles) -> Account {
    let node = QueryMemory::default();
    node.temp_space().serve(Arc::new(files.clone()));
    Account::new(&node)
}

/// What a poll gives in the end.
fn polled<T>(mut poll: impl FnMut() -> Result<Polled<T>, SqlError>) -> Result<Option<T>, SqlError> {
    loop {
        match poll()? {
            Polled::Some(some) => return Ok(Some(some)),
            Polled::End => return Ok(None),
            Polled::Later => {}
        }
    }
}

/// Values of every kind, also the largest of each.
fn values() -> Vec<Datum> {
    let decimals =
        ["0", "-1.50", "99999999999999999999999999999999999.999999999999999999999999999999"];
    let decimals = decimals.map(|text| Datum::Decimal(Decimal::parse(text.as_bytes()).unwrap()));
    let date = Date { year: 9999, month: 12, day: 31 };
    let moment = DateTime { date, hour: 23, minute: 59, second: 58, micros: 999_999 };
    let mut all = vec![
        Datum::Null,
        Datum::Int(i64::MIN),
        Datum::Int(-1),
        Datum::Int(i64::MAX),
        Datum::UInt(u64::MAX),
        Datum::Double(-0.0),
        Datum::Double(1.5e300),
        Datum::text(""),
        Datum::text("Größe"),
        Datum::Bytes(vec![0; 100_000].into()),
        Datum::Date(date),
        Datum::Date(Date::default()),
        Datum::DateTime(moment),
        Datum::Time(Time { micros: -3_020_399_000_000 }),
        Datum::Json((*b"{\"a\": [1]}").into()),
    ];
    all.extend(decimals);
    all
}

#[test]
fn rows_come_back_as_they_were() {
    let account = account(&MemoryFiles::default());
    let file = SpillFile::create(&account, "rows").unwrap();
    let (mut one, mut other) = (RowWriter::new(file.clone()), RowWriter::new(file));
    let all = values();
    for at in 0..2_000 {
        one.push(&[Datum::Int(at), all[at as usize % all.len()].clone()]).unwrap();
        other.push_two(&all[..3], &[]).unwrap();
    }
    other.push(&[]).unwrap();
    let (one, other) = (one.finish().unwrap(), other.finish().unwrap());
    assert_eq!((one.rows(), other.rows()), (2_000, 2_001));
    let (mut one, mut other) = (one.read(), other.read());
    for _ in 0..2 {
        let mut at = 0;
        while let Some(rows) = polled(|| one.poll()).unwrap() {
            for row in rows {
                let expected = [Datum::Int(at), all[at as usize % all.len()].clone()];
                assert_eq!(format!("{row:?}"), format!("{expected:?}"));
                at += 1;
            }
        }
        assert_eq!(at, 2_000);
        one.rewind();
    }
    let mut count = 0;
    while let Some(rows) = polled(|| other.poll()).unwrap() {
        count += rows.len();
        let widths = rows.iter().map(Vec::len);
        assert!(widths.enumerate().all(|(at, width)| width == 3 || at + 1 == rows.len()));
    }
    assert_eq!(count, 2_001);
}

#[test]
fn blocks_come_back_as_they_were() {
    let account = account(&MemoryFiles::default());
    let mut numbers = Vector::new(Kind::Decimal);
    let mut texts = Vector::new(Kind::Bytes);
    for at in 0..1_000_i128 {
        numbers.push(ScalarRef::Decimal(at << 70));
        match at % 3 {
            0 => texts.push_null(),
            _ => texts.push(ScalarRef::Bytes(format!("text {at}").as_bytes())),
        }
    }
    let block = Block::new(1_000, vec![numbers, texts]);
    let mut writer = BlockWriter::new(SpillFile::create(&account, "blocks").unwrap());
    (0..10).for_each(|_| writer.push(&block).unwrap());
    let run = writer.finish().unwrap();
    assert_eq!(run.rows(), 10_000);
    let mut reader = run.read();
    let mut count = 0;
    while let Some(blocks) = polled(|| reader.poll()).unwrap() {
        assert!(blocks.iter().all(|read| *read == block));
        count += blocks.len();
    }
    assert_eq!(count, 10);
}

#[test]
fn space_is_given_back_with_the_last_list_of_a_file() {
    let files = MemoryFiles::default();
    let account = account(&files);
    let mut partitions = RowPartitions::new(&account, "rows").unwrap();
    assert!(account.used() > 0, "buffers are held");
    for at in 0..100_000_i64 {
        let row = [Datum::Int(at)];
        partitions.push(partition_of(&at.to_le_bytes(), 0), &row, &[]).unwrap();
    }
    let mut runs = partitions.finish().unwrap();
    let space = account.temp().space.clone();
    assert_eq!((account.used(), files.open_files()), (0, 1));
    assert_eq!(space.used(), files.written());
    assert!(space.used() > 200_000);
    let rows: Vec<u64> = runs.iter().map(rows::RowRun::rows).collect();
    assert!(rows.iter().all(|rows| rows.abs_diff(100_000 / FAN_OUT as u64) < 1_000), "{rows:?}");
    while runs.pop().is_some() {
        let is_last = runs.is_empty();
        assert_eq!((space.used() == 0, files.open_files() == 0), (is_last, is_last));
    }
    assert_eq!(space.peak(), files.written());
    assert_eq!(account.temp().totals(), space.totals());
    assert_eq!(space.totals(), Spilled { files: 1, written: files.written(), merge_passes: 0 });
}

#[test]
fn partitions_of_a_level_are_spread_at_the_next() {
    let keys: Vec<u32> =
        (0..100_000_u32).filter(|key| partition_of(&key.to_le_bytes(), 0) == 3).collect();
    let mut counts = [0_usize; FAN_OUT];
    keys.iter().for_each(|key| counts[partition_of(&key.to_le_bytes(), 1)] += 1);
    let expected = keys.len() / FAN_OUT;
    assert!(counts.iter().all(|count| count.abs_diff(expected) < expected / 3), "{counts:?}");
}

#[test]
fn each_failure_names_object_and_remedy() {
    let files = MemoryFiles::default();
    let account = account(&files);
    let rows = |most: i64| -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut writer = RowWriter::new(SpillFile::create(&account, "the rows of a sort")?);
        (0..most).try_for_each(|at| writer.push(&[Datum::Int(at)]))?;
        let mut reader = writer.finish()?.read();
        Ok(polled(|| reader.poll())?.unwrap_or_default())
    };
    assert!(account.temp().may_spill());
    account.temp().begin(100_000);
    let error = rows(100_000).unwrap_err();
    assert_eq!(error.code(), 3170);
    let text = error.message();
    assert!(text.contains("100000 bytes for 'the temporary files of the statement"), "{text}");
    assert!(text.contains("by the rows of a sort") && text.contains("nines_temp_space"), "{text}");
    account.temp().begin(u64::MAX);
    account.temp().space.set_limit(100_000);
    let text = rows(100_000).unwrap_err().message().to_owned();
    assert!(text.contains("100000 bytes for 'the temporary files of the SQL node"), "{text}");
    account.temp().space.set_limit(1 << 30);
    files.fail(Faults { full_after: Some(files.written() + 10), ..Faults::default() });
    let error = rows(10_000).unwrap_err();
    assert_eq!(error.code(), 1021);
    assert!(error.message().contains("Disk full") && error.message().contains("TempDir"));
    files.fail(Faults { reads_fail_after: Some(files.reads()), ..Faults::default() });
    assert_eq!(rows(10_000).unwrap_err().code(), 1024);
    files.fail(Faults { damages: true, ..Faults::default() });
    let error = rows(10_000).unwrap_err();
    assert_eq!(error.code(), 1024);
    assert!(error.message().contains("other bytes than were written"), "{error:?}");
    files.fail(Faults::default());
    assert!(rows(10).is_ok());
    assert_eq!((account.temp().space.used(), files.open_files()), (0, 0));
    account.temp().begin(0);
    assert!(!account.temp().may_spill());
}
