//! Sums, differences and parts of dates, times and durations (XPath Functions and Operators 3.1, sections 8 to 10).

use super::{DAY, HOUR, MINUTE, SECOND, Temporal, TemporalType};

/// A part of a date, a time or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Component {
    Year,
    Month,
    Day,
    Hours,
    Minutes,
    Seconds,
}

impl Temporal {
    /// Returns this and a duration.
    #[must_use]
    pub fn plus(self, duration: Self) -> Option<Self> {
        use TemporalType::{Date, DateTime, DayTimeDuration, Time, YearMonthDuration};
        match (self.kind, duration.kind) {
            (DateTime, DayTimeDuration) => self.with_number(self.number.checked_add(duration.number)?),
            (Date, DayTimeDuration) => {
                let local = self.local().checked_add(duration.number)?.div_euclid(DAY).checked_mul(DAY)?;
                Self::of_local(Date, local, self.offset)
            }
            (Time, DayTimeDuration) => {
                Self::of_local(Time, self.local().checked_add(duration.number)?.rem_euclid(DAY), self.offset)
            }
            (DateTime | Date, YearMonthDuration) => {
                let days = self.date().plus_months(duration.number)?.days();
                let local = days.checked_mul(DAY)?.checked_add(self.local().rem_euclid(DAY))?;
                Self::of_local(self.kind, local, self.offset)
            }
            (one, other) if one == other && one.is_duration() => {
                self.with_number(self.number.checked_add(duration.number)?)
            }
            _ => None,
        }
    }

    /// Returns the duration as long in the other direction.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { number: -self.number, ..self }
    }

    /// Returns the time from another value of the same type to this one, which is no duration.
    #[must_use]
    pub fn since(self, other: Self) -> Option<Self> {
        let difference = self.number.checked_sub(other.number)?;
        (self.kind == other.kind && !self.kind.is_duration())
            .then(|| Self::of_number(TemporalType::DayTimeDuration, difference))?
    }

    /// Returns the duration so many times.
    #[must_use]
    pub fn times(self, factor: f64) -> Option<Self> {
        let product = self.number as f64 * factor;
        // Months are rounded as round() does, the upper one of two.
        let whole = match self.kind {
            TemporalType::YearMonthDuration => (product + 0.5).floor(),
            TemporalType::DayTimeDuration => product.round(),
            _ => return None,
        };
        // A cast to integer saturates, and what is so large is no duration.
        if whole.is_finite() { self.with_number(whole as i64) } else { None }
    }

    /// Returns how many times another duration of its type is in this one.
    pub fn ratio(self, other: Self) -> Option<f64> {
        let is_defined = self.kind == other.kind && self.kind.is_duration() && other.number != 0;
        is_defined.then(|| self.number as f64 / other.number as f64)
    }

    fn with_number(self, number: i64) -> Option<Self> {
        Self::new(self.kind, number, self.offset)
    }

    /// Returns a part, of a date or time by its own clock; of a duration with the sign of that, and after all greater
    /// parts of its type.
    pub fn component(self, component: Component) -> f64 {
        if self.kind.is_duration() {
            return self.component_of_duration(component);
        }
        let (date, ticks) = (self.date(), self.local().rem_euclid(DAY));
        match component {
            Component::Year => date.year as f64,
            Component::Month => date.month as f64,
            Component::Day => date.day as f64,
            Component::Hours => (ticks / HOUR) as f64,
            Component::Minutes => (ticks % HOUR / MINUTE) as f64,
            Component::Seconds => (ticks % MINUTE) as f64 / SECOND as f64,
        }
    }

    fn component_of_duration(self, component: Component) -> f64 {
        // Remainders have the sign of what is divided.
        let (months, ticks) = match self.kind {
            TemporalType::YearMonthDuration => (self.number, 0),
            _ => (0, self.number),
        };
        match component {
            Component::Year => (months / 12) as f64,
            Component::Month => (months % 12) as f64,
            Component::Day => (ticks / DAY) as f64,
            Component::Hours => (ticks % DAY / HOUR) as f64,
            Component::Minutes => (ticks % HOUR / MINUTE) as f64,
            Component::Seconds => (ticks % MINUTE) as f64 / SECOND as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TemporalType::{Date, DateTime, DayTimeDuration, Time, YearMonthDuration};

    fn read(kind: TemporalType, text: &str) -> Temporal {
        Temporal::parse(kind, text).unwrap_or_else(|| panic!("{text} is a value of {}", kind.name()))
    }

    /// Examples of the Recommendation, sections 9.6, 9.7 and 8.4.
    #[test]
    fn sums_are_those_of_the_recommendation() {
        let sums = [
            (Date, "2004-10-30Z", DayTimeDuration, "P2DT2H30M0S", "2004-11-01Z"),
            (Date, "2000-10-30", YearMonthDuration, "P1Y2M", "2001-12-30"),
            (Date, "2000-10-30", YearMonthDuration, "-P1Y2M", "1999-08-30"),
            (Date, "2000-02-29Z", YearMonthDuration, "-P1Y", "1999-02-28Z"),
            (DateTime, "2000-10-30T11:12:00", DayTimeDuration, "P3DT1H15M", "2000-11-02T12:27:00"),
            (DateTime, "2000-10-30T11:12:00", YearMonthDuration, "P1Y2M", "2001-12-30T11:12:00"),
            (DateTime, "2000-01-30T11:12:00+14:00", YearMonthDuration, "P1M", "2000-02-29T11:12:00+14:00"),
            (Time, "11:12:00", DayTimeDuration, "P3DT1H15M", "12:27:00"),
            (Time, "08:20:00-05:00", DayTimeDuration, "-P23DT10H10M", "22:10:00-05:00"),
            (DayTimeDuration, "P2DT12H5M", DayTimeDuration, "P5DT12H", "P8DT5M"),
            (YearMonthDuration, "P2Y11M", YearMonthDuration, "-P3Y3M", "-P4M"),
        ];
        for (kind, value, of_duration, duration, sum) in sums {
            let found = read(kind, value).plus(read(of_duration, duration)).map(|sum| sum.to_string());
            assert_eq!(found.as_deref(), Some(sum), "{value} + {duration}");
        }
        let since = |kind, one, other| read(kind, one).since(read(kind, other)).map(|time| time.to_string());
        assert_eq!(
            since(DateTime, "2000-10-30T06:12:00-05:00", "1999-11-28T09:00:00Z").as_deref(),
            Some("P337DT2H12M")
        );
        assert_eq!(since(Date, "2000-10-15-05:00", "2000-10-10+02:00").as_deref(), Some("P5DT7H"));
        assert_eq!(since(Time, "11:12:00Z", "04:00:00Z").as_deref(), Some("PT7H12M"));
        let product = |kind, one, factor| read(kind, one).times(factor).map(|product| product.to_string());
        assert_eq!(product(DayTimeDuration, "PT2H10M", 2.1).as_deref(), Some("PT4H33M"));
        assert_eq!(product(YearMonthDuration, "P2Y11M", 2.3).as_deref(), Some("P6Y9M"));
        assert_eq!(read(YearMonthDuration, "P3Y4M").ratio(read(YearMonthDuration, "-P1Y4M")), Some(-2.5));
    }

    #[test]
    fn texts_that_are_no_value_are_none() {
        let wrong = [
            (DateTime, "2026-11-30"),
            (DateTime, "2026-11-30 12:00:00"),
            (DateTime, "2026-13-01T00:00:00"),
            (DateTime, "2026-11-30T24:00:01"),
            (DateTime, "2026-11-30T12:60:00"),
            (DateTime, "2026-11-30T12:00"),
            (DateTime, "2026-11-30T12:00:00+15:00"),
            (DateTime, "2026-11-30T12:00:00z"),
            (Date, "2023-02-29"),
            (Date, "26-11-30"),
            (Date, "02026-11-30"),
            (Date, "+2026-11-30"),
            (Date, "2026-1-1"),
            (Date, "2026-11-30T"),
            (Time, "12:00:00."),
            (Time, "1:00:00"),
            (DayTimeDuration, "P"),
            (DayTimeDuration, "P1DT"),
            (DayTimeDuration, "P1Y"),
            (DayTimeDuration, "PT1M1H"),
            (DayTimeDuration, "P1.5D"),
            (DayTimeDuration, "1D"),
            (DayTimeDuration, "PT.5S"),
            (YearMonthDuration, "P1D"),
            (YearMonthDuration, "P1M1Y"),
            (YearMonthDuration, "P-1Y"),
            (Date, "999999-01-01"),
            (Date, ""),
            (DayTimeDuration, "P99999999999999999D"),
        ];
        for (kind, text) in wrong {
            assert_eq!(Temporal::parse(kind, text), None, "{text} as {}", kind.name());
        }
    }

    /// What is written is read as the same value.
    #[test]
    fn values_are_written_as_they_are_read() {
        let right = [
            (DateTime, "2026-11-30T12:00:00.25+05:30"),
            (DateTime, "-0044-03-15T00:00:00Z"),
            (DateTime, "0000-01-01T00:00:00"),
            (DateTime, "12026-11-30T23:59:59.9999999-14:00"),
            (Date, "1564-04-26"),
            (Time, "23:59:59.1"),
            (DayTimeDuration, "P3DT4H5M6.7S"),
            (DayTimeDuration, "-PT0.5S"),
            (DayTimeDuration, "PT0S"),
            (YearMonthDuration, "P0M"),
            (YearMonthDuration, "-P1Y2M"),
            (YearMonthDuration, "P2Y"),
        ];
        for (kind, text) in right {
            assert_eq!(read(kind, &format!(" {text}\n")).to_string(), text);
        }
        assert_eq!(read(DateTime, "2026-12-31T24:00:00").to_string(), "2027-01-01T00:00:00");
        assert_eq!(read(Time, "24:00:00Z").to_string(), "00:00:00Z");
        assert_eq!(read(DayTimeDuration, "PT36H").to_string(), "P1DT12H");
        assert_eq!(read(DateTime, "2026-11-30T12:00:00.12345678912").to_string(), "2026-11-30T12:00:00.1234567");
    }
}
