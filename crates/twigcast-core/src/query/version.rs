//! Versions such as `2.17.1` and `3.0-rc.2`, and their order.

/// The most bytes of a text that is read as a version.
const BYTES_MAX: usize = 128;

/// Marks in a key. What is less comes before: `1.2-rc` before `1.2`, which comes before `1.2.1`.
mod mark {
    /// A preliminary version follows.
    pub(super) const PRELIMINARY: u8 = 1;
    /// The version ends.
    pub(super) const END: u8 = 2;
    /// A number follows, of one digit less than the difference.
    pub(super) const NUMBER: u8 = 3;
    /// A word follows, and ends with a zero.
    pub(super) const WORD: u8 = 255;
}

/// A version, as bytes that are in the order of versions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(Box<[u8]>);

impl Version {
    /// Reads a text as a version: numbers with points between them, after which a hyphen may lead to the words and numbers
    /// of a preliminary version, and a plus sign to what does not count. A `v` may stand before all. `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_matches(crate::util::number::SPACES);
        if text.len() > BYTES_MAX {
            return None;
        }
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(counts, _)| counts);
        let (numbers, preliminary) = text.split_once('-').map_or((text, None), |(numbers, rest)| (numbers, Some(rest)));
        let mut key = Vec::with_capacity(2 * text.len());
        // `1.0` is `1`.
        let mut significant = 0;
        for number in numbers.split('.') {
            let digits = number.trim_start_matches('0');
            push_number(&mut key, number)?;
            if !digits.is_empty() {
                significant = key.len();
            }
        }
        key.truncate(significant);
        match preliminary {
            None => key.push(mark::END),
            Some(preliminary) => {
                key.push(mark::PRELIMINARY);
                for part in preliminary.split(['.', '-']) {
                    push_part(&mut key, part)?;
                }
            }
        }
        Some(Self(key.into()))
    }

    /// Returns the first bytes as a number: that of a version that comes before is not greater.
    pub fn prefix(&self) -> u64 {
        let mut bytes = [0; 8];
        let length = self.0.len().min(bytes.len());
        bytes[..length].copy_from_slice(&self.0[..length]);
        u64::from_be_bytes(bytes)
    }
}

fn push_number(key: &mut Vec<u8>, number: &str) -> Option<()> {
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = number.trim_start_matches('0').as_bytes();
    key.push(mark::NUMBER + digits.len() as u8);
    key.extend_from_slice(digits);
    Some(())
}

fn push_part(key: &mut Vec<u8>, part: &str) -> Option<()> {
    if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    if push_number(key, part).is_none() {
        key.push(mark::WORD);
        key.extend_from_slice(part.as_bytes());
        key.push(0);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_their_order() {
        // The preliminary ones in the order of Semantic Versioning 2.0, section 11.
        let ordered = [
            "0.9",
            "1-0",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
            "1.0.0.1-x",
            "1.0.0.1",
            "1.2",
            "1.10",
            "2.9.1",
            "2.17.1",
            "2.17.1.0.3",
            "10",
            "10.99999999999999999999999",
        ];
        for (index, first) in ordered.iter().enumerate() {
            for (other, second) in ordered.iter().enumerate() {
                let (first, second) = (Version::parse(first).expect(first), Version::parse(second).expect(second));
                assert_eq!(first.cmp(&second), index.cmp(&other), "{first:?} {second:?}");
                assert!(index > other || first.prefix() <= second.prefix());
            }
        }
        for (one, other) in
            [("1", "1.0.0"), ("v1.2", "1.02"), ("1.2+build.7", " 1.2 "), ("0", "0.0"), ("1-rc-2", "1-rc.2")]
        {
            assert_eq!(Version::parse(one).expect(one), Version::parse(other).expect(other));
        }
        for text in ["", "v", "1..2", "1.", ".1", "a.b", "1.x", "1-", "1-a..b", "1.2 3", "latest", "1-é"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
