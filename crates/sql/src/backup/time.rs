//! Times of backups and archives.

use crate::kernel::Kernel;
use crate::session::Session;

/// The time now: microseconds since 1970 UTC.
pub(super) fn now(session: &Session) -> i64 {
    let since = session.kernel.now().since(session.statement_began);
    let micros = i64::try_from(since.as_nanos() / 1_000).unwrap_or(i64::MAX);
    session.statement_time.saturating_add(micros)
}

/// A time, in microseconds since 1970 UTC, as lists show it: UTC, to the second.
pub fn shown_time(micros: i64) -> String {
    let (day, second) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = stdx::calendar::date_of(day);
    let second = second / 1_000_000;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// A time, in microseconds since 1970 UTC, to the millisecond before.
pub(crate) fn shown_moment(micros: i64) -> String {
    format!("{}.{:03}", shown_time(micros), micros.rem_euclid(1_000_000) / 1_000)
}

/// The time now on this kernel's worker, whose clock counts from `clock_base`: microseconds since
/// 1970 UTC.
pub(super) fn time(kernel: &Kernel, clock_base: i64) -> i64 {
    let since = i64::try_from(kernel.now().as_nanos() / 1_000).unwrap_or(i64::MAX);
    clock_base.saturating_add(since)
}
