//! Dates, times and durations as texts, in their canonical form.

use std::fmt;

use super::{DAY, HOUR, MINUTE, SECOND, Temporal, TemporalType};

/// Seconds with their fraction, without zeros at its end.
struct Seconds {
    ticks: i64,
    /// The least digits before the point.
    digits: usize,
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0digits$}", self.ticks / SECOND, digits = self.digits)?;
        match self.ticks % SECOND {
            0 => Ok(()),
            fraction => write!(f, ".{}", format!("{fraction:07}").trim_end_matches('0')),
        }
    }
}

impl fmt::Display for Temporal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TemporalType::DateTime => {
                self.write_date(f)?;
                f.write_str("T")?;
                self.write_time(f)?;
            }
            TemporalType::Date => self.write_date(f)?,
            TemporalType::Time => self.write_time(f)?,
            TemporalType::DayTimeDuration => return self.write_day_time(f),
            TemporalType::YearMonthDuration => return self.write_year_month(f),
        }
        match self.offset {
            None => Ok(()),
            Some(0) => f.write_str("Z"),
            Some(offset) => {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

impl Temporal {
    fn write_date(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = self.date();
        let sign = if date.year < 0 { "-" } else { "" };
        write!(f, "{sign}{:04}-{:02}-{:02}", date.year.abs(), date.month, date.day)
    }

    fn write_time(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = self.local().rem_euclid(DAY);
        let seconds = Seconds { ticks: ticks % MINUTE, digits: 2 };
        write!(f, "{:02}:{:02}:{seconds}", ticks / HOUR, ticks % HOUR / MINUTE)
    }

    fn write_day_time(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ticks = self.number.abs();
        f.write_str(if self.number < 0 { "-P" } else { "P" })?;
        if ticks == 0 {
            return f.write_str("T0S");
        }
        if ticks >= DAY {
            write!(f, "{}D", ticks / DAY)?;
        }
        if ticks % DAY == 0 {
            return Ok(());
        }
        f.write_str("T")?;
        for (count, unit) in [(ticks % DAY / HOUR, 'H'), (ticks % HOUR / MINUTE, 'M')] {
            if count > 0 {
                write!(f, "{count}{unit}")?;
            }
        }
        match ticks % MINUTE {
            0 => Ok(()),
            ticks => write!(f, "{}S", Seconds { ticks, digits: 1 }),
        }
    }

    fn write_year_month(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (years, months) = (self.number.abs() / 12, self.number.abs() % 12);
        f.write_str(if self.number < 0 { "-P" } else { "P" })?;
        match (years, months) {
            (0, months) => write!(f, "{months}M"),
            (years, 0) => write!(f, "{years}Y"),
            (years, months) => write!(f, "{years}Y{months}M"),
        }
    }
}
