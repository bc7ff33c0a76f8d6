//! Texts as dates, times and durations (XML Schema 1.1 part 2, section 3.3 and 3.4).

use super::calendar::{Date, days_of_month};
use super::{DAY, HOUR, MINUTE, SECOND, Temporal, TemporalType};
use crate::util::number::SPACES;

/// The most digits of a number that is read: more would be too much in any place.
const DIGITS_MAX: usize = 18;
/// Digits of a fraction that a tick tells apart; further ones are left out.
const FRACTION_DIGITS: usize = 7;
/// The greatest offset, in minutes.
const OFFSET_MAX: i64 = 14 * 60;

/// Reads a text from left to right.
struct TemporalReader<'t> {
    rest: &'t [u8],
}

impl TemporalReader<'_> {
    /// Reads a character, if it is this one.
    fn take(&mut self, expected: u8) -> Option<()> {
        match self.rest {
            [first, rest @ ..] if *first == expected => {
                self.rest = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// Reads as many digits as there are. Returns their number, and how many they are.
    fn digits(&mut self) -> Option<(i64, usize)> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > DIGITS_MAX {
            return None;
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some((digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0')), count))
    }

    /// Reads two digits, of a number within bounds.
    fn pair(&mut self, least: i64, most: i64) -> Option<i64> {
        let [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = self.rest else { return None };
        let number = 10 * i64::from(tens - b'0') + i64::from(ones - b'0');
        self.rest = rest;
        (least..=most).contains(&number).then_some(number)
    }

    /// Reads the digits of a fraction, in ticks.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let digits = digits.iter().map(|digit| i64::from(digit - b'0')).chain(std::iter::repeat(0));
        (count > 0).then(|| digits.take(FRACTION_DIGITS).fold(0, |ticks, digit| 10 * ticks + digit))
    }

    /// Reads a day, in ticks since 1970-01-01.
    fn date(&mut self) -> Option<i64> {
        let is_negative = self.take(b'-').is_some();
        let starts_with_zero = self.rest.first() == Some(&b'0');
        let (year, digits) = self.digits()?;
        if digits < 4 || (digits > 4 && starts_with_zero) || digits > 6 {
            return None;
        }
        let year = if is_negative { -year } else { year };
        self.take(b'-')?;
        let month = self.pair(1, 12)?;
        self.take(b'-')?;
        let day = self.pair(1, days_of_month(year, month))?;
        Date { year, month, day }.days().checked_mul(DAY)
    }

    /// Reads a time, in ticks of the day. The end of a day is the beginning of the next one.
    fn time(&mut self) -> Option<i64> {
        let hour = self.pair(0, 24)?;
        self.take(b':')?;
        let minute = self.pair(0, 59)?;
        self.take(b':')?;
        let second = self.pair(0, 59)?;
        let fraction = if self.take(b'.').is_some() { self.fraction()? } else { 0 };
        let ticks = hour * HOUR + minute * MINUTE + second * SECOND + fraction;
        (ticks <= DAY).then_some(ticks)
    }

    /// Reads an offset, in minutes, and the end.
    fn offset(mut self) -> Option<Option<i16>> {
        let sign = match self.rest {
            [] => return Some(None),
            [b'Z'] => return Some(Some(0)),
            [b'+', ..] => 1,
            [b'-', ..] => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.pair(0, 14)?;
        self.take(b':')?;
        let minutes = 60 * hours + self.pair(0, 59)?;
        (self.rest.is_empty() && minutes <= OFFSET_MAX).then_some(Some((sign * minutes) as i16))
    }

    /// Reads a duration and the end: numbers with their units, each of which may be missing.
    fn duration(&mut self, units: &[(u8, i64)], units_of_time: &[(u8, i64)]) -> Option<i64> {
        let is_negative = self.take(b'-').is_some();
        self.take(b'P')?;
        let mut number = 0_i64;
        let mut is_empty = true;
        let mut read = |reader: &mut Self, mut units: &[(u8, i64)]| -> Option<bool> {
            let before = reader.rest.len();
            while !reader.rest.is_empty() && reader.rest[0] != b'T' {
                let (count, _) = reader.digits()?;
                let fraction = if reader.take(b'.').is_some() { Some(reader.fraction()?) } else { None };
                let (letter, rest) = reader.rest.split_first()?;
                let position = units.iter().position(|(unit, _)| unit == letter)?;
                if fraction.is_some() && *letter != b'S' {
                    return None;
                }
                number =
                    number.checked_add(count.checked_mul(units[position].1)?)?.checked_add(fraction.unwrap_or(0))?;
                (reader.rest, units) = (rest, &units[position + 1..]);
            }
            Some(reader.rest.len() < before)
        };
        is_empty &= !read(self, units)?;
        if self.take(b'T').is_some() {
            if !read(self, units_of_time)? {
                return None;
            }
            is_empty = false;
        }
        let is_complete = self.rest.is_empty() && !is_empty;
        is_complete.then_some(if is_negative { -number } else { number })
    }
}

impl Temporal {
    /// Reads a text as a value of a type, white space around it aside; `None` if it is none.
    pub fn parse(kind: TemporalType, text: &str) -> Option<Self> {
        let mut reader = TemporalReader { rest: text.trim_matches(SPACES).as_bytes() };
        let local = match kind {
            TemporalType::DateTime => {
                let day = reader.date()?;
                reader.take(b'T')?;
                day.checked_add(reader.time()?)?
            }
            TemporalType::Date => reader.date()?,
            TemporalType::Time => reader.time()? % DAY,
            TemporalType::DayTimeDuration => {
                let units_of_time = [(b'H', HOUR), (b'M', MINUTE), (b'S', SECOND)];
                return Self::new(kind, reader.duration(&[(b'D', DAY)], &units_of_time)?, None);
            }
            TemporalType::YearMonthDuration => {
                return Self::new(kind, reader.duration(&[(b'Y', 12), (b'M', 1)], &[])?, None);
            }
        };
        Self::of_local(kind, local, reader.offset()?)
    }
}
