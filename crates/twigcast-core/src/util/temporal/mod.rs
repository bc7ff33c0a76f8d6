//! Dates, times and durations of XML Schema 1.1, as XPath 3.1 reads, compares, adds and writes them.
//!
//! Each is one number: ticks of 100 nanoseconds on the time line of UTC, or of a duration, or months. So two of a type
//! compare as their numbers do, whatever their offsets. A value without an offset is one of UTC.
//!
//! ```
//! use twigcast_core::util::temporal::{Temporal, TemporalType};
//!
//! let read = |text| Temporal::parse(TemporalType::DateTime, text).expect("a date and time");
//! let (here, there) = (read("2026-11-30T01:30:00+02:00"), read("2026-11-29T23:30:00Z"));
//! assert_eq!(here.number(), there.number());
//! assert_eq!(here.to_string(), "2026-11-30T01:30:00+02:00");
//! assert!(Temporal::parse(TemporalType::DateTime, "2026-02-30T00:00:00").is_none());
//! ```

mod arithmetic;
mod calendar;
mod reading;
mod writing;

pub use arithmetic::Component;
use calendar::Date;

/// Ticks of a second, a minute and so on.
pub(crate) const SECOND: i64 = 10_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// No number is further from zero, so that there is room at both ends of the integers. That is some 29,000 years.
const NUMBER_MAX: i64 = 9_200_000_000_000_000_000;

/// A type of dates, times or durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TemporalType {
    DateTime,
    Date,
    Time,
    DayTimeDuration,
    YearMonthDuration,
}

impl TemporalType {
    /// All types.
    pub const ALL: [Self; 5] = [Self::DateTime, Self::Date, Self::Time, Self::DayTimeDuration, Self::YearMonthDuration];

    /// Returns the name that queries write.
    pub fn name(self) -> &'static str {
        match self {
            Self::DateTime => "xs:dateTime",
            Self::Date => "xs:date",
            Self::Time => "xs:time",
            Self::DayTimeDuration => "xs:dayTimeDuration",
            Self::YearMonthDuration => "xs:yearMonthDuration",
        }
    }

    /// Returns a value of the type as a query writes it.
    pub fn example(self) -> &'static str {
        match self {
            Self::DateTime => "xs:dateTime('2026-11-30T12:00:00Z')",
            Self::Date => "xs:date('2026-11-30')",
            Self::Time => "xs:time('12:00:00')",
            Self::DayTimeDuration => "xs:dayTimeDuration('P1DT12H')",
            Self::YearMonthDuration => "xs:yearMonthDuration('P1Y6M')",
        }
    }

    /// Returns whether it is a type of durations.
    pub fn is_duration(self) -> bool {
        matches!(self, Self::DayTimeDuration | Self::YearMonthDuration)
    }
}

/// A date, a time, both, or a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Temporal {
    kind: TemporalType,
    number: i64,
    /// Minutes that its clock is ahead of UTC, if it says so.
    offset: Option<i16>,
}

impl Temporal {
    /// Returns a value, unless its number is too large.
    fn new(kind: TemporalType, number: i64, offset: Option<i16>) -> Option<Self> {
        (number.abs() <= NUMBER_MAX).then_some(Self { kind, number, offset })
    }

    /// Returns a value by what its own clock says.
    fn of_local(kind: TemporalType, local: i64, offset: Option<i16>) -> Option<Self> {
        Self::new(kind, local.checked_sub(i64::from(offset.unwrap_or(0)) * MINUTE)?, offset)
    }

    /// Returns a value of UTC, or a duration, by its number.
    pub fn of_number(kind: TemporalType, number: i64) -> Option<Self> {
        Self::new(kind, number, (!kind.is_duration()).then_some(0))
    }

    /// Returns the number of a date and time that is so many microseconds after 1970.
    pub fn number_of_microseconds(microseconds: i64) -> i64 {
        microseconds.saturating_mul(SECOND / 1_000_000)
    }

    /// Returns the number of the present date and time, by the clock of this machine.
    pub fn present() -> i64 {
        let ticks = |duration: std::time::Duration| i64::try_from(duration.as_nanos() / 100).unwrap_or(NUMBER_MAX);
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => ticks(since),
            Err(before) => -ticks(before.duration()),
        }
    }

    /// Returns its type.
    pub fn kind(self) -> TemporalType {
        self.kind
    }

    /// Returns the number that it is compared by.
    pub fn number(self) -> i64 {
        self.number
    }

    /// Returns the local time, with its own offset.
    fn local(self) -> i64 {
        self.number + i64::from(self.offset.unwrap_or(0)) * MINUTE
    }

    /// Returns the day that its own clock says.
    fn date(self) -> Date {
        Date::of_days(self.local().div_euclid(DAY))
    }

    /// Returns the value as one of another type: of a date and time, each of the two; of a date, when it begins.
    #[must_use]
    pub fn cast(self, kind: TemporalType) -> Option<Self> {
        use TemporalType::{Date, DateTime, Time};
        let local = match (self.kind, kind) {
            (one, other) if one == other => return Some(self),
            (DateTime, Date) => self.local().div_euclid(DAY) * DAY,
            (DateTime, Time) => self.local().rem_euclid(DAY),
            (Date, DateTime) => self.local(),
            _ => return None,
        };
        Self::of_local(kind, local, self.offset)
    }
}
