//! Storing dates and times.

use super::Storing;
use crate::convert::{number_to_date_time, number_to_time, shown};
use crate::datum::Datum;
use crate::problem::Problem;
use crate::sql_type::{SqlType, TypeKind};
use crate::temporal::{Date, DateTime, SECOND, Time, parse_date_time, parse_time_clamped};
use crate::zone::TimeZone;

/// What was made of a value.
struct Found<T> {
    value: T,
    /// Something of it had to be left out.
    is_cut: bool,
}

/// The first moment of a TIMESTAMP, in seconds since 1970.
const TIMESTAMP_FIRST: i64 = 1;
/// The last.
const TIMESTAMP_LAST: i64 = i32::MAX as i64;

impl Storing<'_, '_, '_> {
    /// A value that is no date or time, or not quite: an error that names it, or a warning.
    fn temporal_problem(
        &mut self,
        kind: &str,
        datum: &Datum,
        from: &SqlType,
        otherwise: Problem,
    ) -> Result<(), Problem> {
        let problem = if self.converter.mode.strict {
            self.place.incorrect_temporal(kind, &shown(datum, from))
        } else {
            otherwise
        };
        self.fail(problem)
    }

    /// The date with time that a value stands for.
    fn find_date_time(&mut self, datum: &Datum, from: &SqlType) -> Option<Found<DateTime>> {
        let whole = |value| Some(Found { value, is_cut: false });
        match datum {
            Datum::DateTime(at) => whole(*at),
            Datum::Date(date) => whole(DateTime::midnight(*date)),
            Datum::Time(time) => {
                let today = DateTime::midnight(self.converter.today());
                today.add_micros(time.micros).and_then(whole)
            }
            Datum::Bytes(text) => {
                let parsed = parse_date_time(text)?;
                let value = match parsed.offset {
                    None => parsed.value,
                    Some(minutes) => {
                        let moment = TimeZone::of_offset(minutes)?.moment(parsed.value)?;
                        self.converter.zone.local(moment)
                    }
                };
                Some(Found { value, is_cut: parsed.garbage })
            }
            Datum::Json(_) => self.converter.fuzzy_date_time(datum, from).and_then(whole),
            _ => number_to_date_time(&self.converter.decimal(datum, from)?).and_then(whole),
        }
    }

    /// Finds a date with time and judges it by the SQL mode; the zero date where there is none.
    fn judged_date_time(
        &mut self,
        kind: &str,
        datum: &Datum,
        from: &SqlType,
    ) -> Result<DateTime, Problem> {
        let Some(found) = self.find_date_time(datum, from) else {
            self.temporal_problem(kind, datum, from, self.place.truncated())?;
            return Ok(DateTime::default());
        };
        if self.converter.mode.refuses(found.value.date) {
            self.temporal_problem(kind, datum, from, self.place.out_of_range())?;
            return Ok(DateTime::default());
        }
        if found.is_cut {
            self.temporal_problem(kind, datum, from, self.place.truncated())?;
        }
        Ok(found.value)
    }

    pub(super) fn date(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let at = self.judged_date_time("date", datum, from)?;
        if at.time() != Time::default() {
            self.fail(self.place.truncated_note())?;
        }
        Ok(Datum::Date(at.date))
    }

    pub(super) fn date_time(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let at = self.judged_date_time("datetime", datum, from)?;
        let digits = self.to.decimals;
        let rounded = if self.converter.mode.truncate_fractions {
            Some(at.truncate(digits))
        } else {
            at.round(digits)
        };
        let Some(rounded) = rounded else {
            self.temporal_problem("datetime", datum, from, self.place.out_of_range())?;
            return Ok(Datum::DateTime(DateTime::default()));
        };
        if self.to.kind != TypeKind::Timestamp || rounded == DateTime::default() {
            return Ok(Datum::DateTime(rounded));
        }
        let moment = self.converter.zone.moment(rounded);
        let range = TIMESTAMP_FIRST..=TIMESTAMP_LAST;
        let Some(moment) = moment.filter(|moment| range.contains(&moment.div_euclid(SECOND)))
        else {
            self.temporal_problem("datetime", datum, from, self.place.out_of_range())?;
            return Ok(Datum::DateTime(DateTime::default()));
        };
        // A local time that clocks skip is none.
        let local = self.converter.zone.local(moment);
        if local != rounded {
            let place = self.place;
            let text = format!(
                "Invalid TIMESTAMP value in column '{}' at row {}",
                place.column, place.row
            );
            self.temporal_problem("datetime", datum, from, Problem::new(1299, text))?;
        }
        Ok(Datum::DateTime(local))
    }

    pub(super) fn time(&mut self, datum: &Datum, from: &SqlType) -> Result<Datum, Problem> {
        let (found, is_out_of_range) = match datum {
            Datum::Time(time) => (Some(Found { value: *time, is_cut: false }), false),
            Datum::DateTime(at) => {
                if at.date != Date::default() {
                    self.fail(self.place.truncated_note())?;
                }
                (Some(Found { value: at.time(), is_cut: false }), false)
            }
            Datum::Date(_) => (Some(Found { value: Time::default(), is_cut: false }), false),
            Datum::Bytes(text) => match parse_time_clamped(text) {
                Some((parsed, clamped)) => {
                    (Some(Found { value: parsed.value, is_cut: parsed.garbage }), clamped)
                }
                None => (None, false),
            },
            Datum::Json(_) => {
                let time = self.converter.time(datum, from);
                (time.map(|value| Found { value, is_cut: false }), false)
            }
            _ => match self.converter.decimal(datum, from).and_then(|n| number_to_time(&n)) {
                Some((value, clamped)) => (Some(Found { value, is_cut: false }), clamped),
                None => (None, false),
            },
        };
        let Some(found) = found else {
            self.temporal_problem("time", datum, from, self.place.truncated())?;
            return Ok(Datum::Time(Time::default()));
        };
        if is_out_of_range {
            self.temporal_problem("time", datum, from, self.place.out_of_range())?;
        } else if found.is_cut {
            self.temporal_problem("time", datum, from, self.place.truncated())?;
        }
        let digits = self.to.decimals;
        let kept = if self.converter.mode.truncate_fractions {
            found.value.truncate(digits)
        } else {
            found.value.round(digits)
        };
        Ok(Datum::Time(kept))
    }
}
