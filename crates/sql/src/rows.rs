//! Rows of values, and what they take in memory.

use sqltype::Datum;

/// A row of a block, or of a result.
pub(crate) type Row = Vec<Datum>;

/// About how many bytes rows take in memory.
pub(crate) fn memory_of(rows: &[Row]) -> usize {
    rows.iter().map(memory_of_row).sum()
}

/// The same for one row.
pub(crate) fn memory_of_row(row: &Row) -> usize {
    let of_value = |value: &Datum| match value {
        Datum::Bytes(bytes) | Datum::Json(bytes) => bytes.len(),
        _ => 0,
    };
    let more: usize = row.iter().map(of_value).sum();
    size_of::<Row>() + row.capacity() * size_of::<Datum>() + more
}
