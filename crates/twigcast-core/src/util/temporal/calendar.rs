//! The Gregorian calendar, as if it had always been used; the year before 1 is 0.

/// The days before 1970-01-01 that the count of this module begins with: those since 0000-03-01.
const DAYS_BEFORE: i64 = 719_468;
/// Days of 400 years, after which the calendar repeats itself.
const ERA_DAYS: i64 = 146_097;

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// From 1.
    pub(super) day: i64,
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the number of days of a month.
pub(super) fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Date {
    /// Returns the day that is so many days after 1970-01-01. Years are counted from March, so that a leap day is the
    /// last one (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    pub(super) fn of_days(days: i64) -> Self {
        let days = days + DAYS_BEFORE;
        let (era, of_era) = (days.div_euclid(ERA_DAYS), days.rem_euclid(ERA_DAYS));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA_DAYS - 1)) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + 400 * era + i64::from(month <= 2);
        Self { year, month, day: of_year - (153 * from_march + 2) / 5 + 1 }
    }

    /// Returns the number of days after 1970-01-01.
    pub(super) fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let from_march = (self.month + 9) % 12;
        let of_year = (153 * from_march + 2) / 5 + self.day - 1;
        era * ERA_DAYS + 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + of_year - DAYS_BEFORE
    }

    /// Returns the same day so many months later, or the last one of a month that is too short.
    pub(super) fn plus_months(self, months: i64) -> Option<Self> {
        let months = self.year.checked_mul(12)?.checked_add(self.month - 1)?.checked_add(months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        // Far more than can be counted in days.
        (year.abs() < 1_000_000).then(|| Self { year, month, day: self.day.min(days_of_month(year, month)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each day follows the one before, by the lengths of months alone.
    #[test]
    fn days_follow_one_another() {
        let mut day = Date { year: -801, month: 1, day: 1 };
        let first = day.days();
        for number in first..first + 3 * ERA_DAYS + 1_000 {
            assert_eq!((day.days(), Date::of_days(number)), (number, day));
            day.day += 1;
            if day.day > days_of_month(day.year, day.month) {
                (day.month, day.day) = (day.month + 1, 1);
            }
            if day.month > 12 {
                (day.year, day.month) = (day.year + 1, 1);
            }
        }
        assert_eq!(Date { year: 1970, month: 1, day: 1 }.days(), 0);
        assert_eq!(Date { year: 2000, month: 3, day: 1 }.days(), 11_017);
    }
}
