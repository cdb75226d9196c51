//! Days of the Gregorian calendar by number, also of years before it was there.
//!
//! Years begin in March here, so that the day that some years have more is their last; the rest is
//! regular.

/// The number of a day, where 1970-01-01 is 0. A month or day of zero counts as one before the
/// first.
#[inline]
pub fn day_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_OF_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - UNIX_DAY
}

/// Year, month and day of a number.
#[inline]
pub fn date_of(day: i64) -> (i64, i64, i64) {
    let days = day + UNIX_DAY;
    let (era, of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Days after which the calendar repeats itself: 400 years.
const DAYS_OF_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const UNIX_DAY: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_comes_back() {
        for day in -800_000..800_000 {
            let (year, month, of_month) = date_of(day);
            assert_eq!(day_of(year, month, of_month), day);
        }
    }

    #[test]
    fn known_days() {
        assert_eq!(day_of(1970, 1, 1), 0);
        assert_eq!(day_of(2000, 2, 29) + 1, day_of(2000, 3, 1));
        assert_eq!(day_of(1900, 2, 28) + 1, day_of(1900, 3, 1));
        assert_eq!(date_of(-1), (1969, 12, 31));
        assert_eq!(date_of(day_of(2024, 2, 29)), (2024, 2, 29));
        assert_eq!(day_of(2024, 0, 1), day_of(2023, 12, 1), "a month of zero");
        assert_eq!(day_of(2024, 3, 0), day_of(2024, 2, 29), "a day of zero");
    }
}
