//! Windows of time that recur each week, by the clocks of a time zone.
//!
//! ```
//! use twigcast_core::util::hours::RecurringHours;
//! use twigcast_core::util::temporal::{Temporal, TemporalType};
//!
//! let hours = RecurringHours::parse("Mo-Fr 07:00-19:00; Sa 08:00-12:00", "Europe/Zurich").expect("windows and a zone");
//! let at = |text| Temporal::parse(TemporalType::DateTime, text).expect("a date and time");
//! assert!(hours.contain(at("2026-11-30T06:30:00Z"))); // a Monday, half past seven in Zurich
//! assert!(!hours.contain(at("2026-11-29T12:00:00Z")));
//! ```

use std::sync::OnceLock;

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::temporal::{SECOND, Temporal};

const DAYS: [&str; 7] = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
const DAY_SECONDS: i64 = 86_400;
/// The weekday of 1970-01-01, counted from Monday.
const THURSDAY: i64 = 3;
const EXAMPLE: &str = "write windows as in 'Mo-Fr 07:00-19:00; Sa 08:00-12:00', with Mo, Tu, We, Th, Fr, Sa, Su";

/// Windows of time in a zone.
#[derive(Clone, Debug)]
pub struct RecurringHours {
    windows: Vec<Window>,
    zone: TimeZone,
}

/// A window that begins on some days of the week. It ends on the next day if it would end before it begins.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// By weekday from Monday on, as bits.
    days: u8,
    /// In seconds of the day; the end is not part of it.
    from: i64,
    to: i64,
}

/// The zones of the IANA database as this version was built with, so that all machines answer alike.
fn zones() -> &'static TimeZoneDatabase {
    static ZONES: OnceLock<TimeZoneDatabase> = OnceLock::new();
    ZONES.get_or_init(TimeZoneDatabase::bundled)
}

impl RecurringHours {
    /// Returns windows of a zone; the error says what is wrong with either.
    pub fn parse(windows: &str, zone: &str) -> Result<Self, String> {
        let known = zones().get(zone).map_err(|_| {
            format!("there is no time zone `{zone}`; zones have the names of the IANA database, such as 'Europe/Zurich' or 'UTC'")
        })?;
        let windows: Result<Vec<_>, String> = windows
            .split(';')
            .map(|window| {
                Window::parse(window).ok_or_else(|| format!("`{}` is no window of time; {EXAMPLE}", window.trim()))
            })
            .collect();
        Ok(Self { windows: windows?, zone: known })
    }

    /// Returns whether a time is in one of the windows.
    pub fn contain(&self, time: Temporal) -> bool {
        let seconds = time.number().div_euclid(SECOND);
        let Ok(timestamp) = Timestamp::from_second(seconds) else { return false };
        let local = seconds + i64::from(self.zone.to_offset(timestamp).seconds());
        let (day, of_day) = (local.div_euclid(DAY_SECONDS), local.rem_euclid(DAY_SECONDS));
        self.windows.iter().any(|window| window.contains((day + THURSDAY).rem_euclid(7), of_day))
    }
}

impl Window {
    fn parse(text: &str) -> Option<Self> {
        let (days, hours) = match text.trim().split_once(' ') {
            Some((days, hours)) => (days_of(days)?, hours.trim()),
            None => (0x7f, text.trim()),
        };
        let (from, to) = hours.split_once('-')?;
        let (from, to) = (seconds_of(from)?, seconds_of(to)?);
        (from < DAY_SECONDS && from != to).then_some(Self { days, from, to })
    }

    fn contains(self, weekday: i64, of_day: i64) -> bool {
        let begins = |weekday: i64| self.days >> weekday.rem_euclid(7) & 1 == 1;
        if self.from < self.to {
            return begins(weekday) && (self.from..self.to).contains(&of_day);
        }
        begins(weekday) && of_day >= self.from || begins(weekday - 1) && of_day < self.to
    }
}

/// Returns the days of `Mo-Fr,Su`.
fn days_of(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|known| *known == name.trim());
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (day(first)?, day(last)?),
            None => (day(part)?, day(part)?),
        };
        // From Saturday to Monday goes on over the end of the week.
        let length = (last + 7 - first) % 7;
        (first..=first + length).for_each(|day| days |= 1 << (day % 7));
    }
    Some(days)
}

/// Returns the seconds of `07:30`, up to `24:00`.
fn seconds_of(text: &str) -> Option<i64> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { text.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let seconds = hours * 3_600 + minutes * 60;
    (minutes < 60 && seconds <= DAY_SECONDS).then_some(seconds)
}
