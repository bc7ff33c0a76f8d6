//! Byte offsets to lines and columns, counted only when somebody asks.

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Returns the line and column of a byte offset, both from 1. Lines end with LF, CR LF or CR; columns count characters;
/// a byte-order mark counts as nothing.
pub fn locate(source: &[u8], offset: usize) -> (u32, u32) {
    Locator::new(source).locate(offset)
}

/// Lines and columns of many byte offsets of one source: of ascending ones, the bytes between are gone through once.
#[derive(Debug)]
pub struct Locator<'a> {
    source: &'a [u8],
    /// Where the first character is: behind a byte order mark.
    start: usize,
    /// How far it was counted, and what there is.
    at: usize,
    line: u32,
    column: u32,
}

impl<'a> Locator<'a> {
    /// Creates a locator at the beginning of a source.
    pub fn new(source: &'a [u8]) -> Self {
        let start = if source.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Self { source, start, at: start, line: 1, column: 1 }
    }

    /// Creates a locator for a later part of a source, where U+FEFF is a character like any other.
    pub fn of_part(source: &'a [u8]) -> Self {
        Self { source, start: 0, at: 0, line: 1, column: 1 }
    }

    /// Returns what [`locate`] does, for offsets in ascending order.
    pub fn locate(&mut self, offset: usize) -> (u32, u32) {
        let offset = offset.min(self.source.len());
        if offset < self.at {
            *self = Self { at: self.start, line: 1, column: 1, ..*self };
        }
        let Some(between) = self.source.get(self.at..offset) else { return (1, 1) };
        let mut line_start = 0;
        if memchr::memchr(b'\r', between).is_none() {
            // Counting costs much less than going from one to the next.
            if let Some(last) = memchr::memrchr(b'\n', between) {
                let lines = memchr::memchr_iter(b'\n', between).count();
                self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
                self.column = 1;
                line_start = last + 1;
            }
        } else {
            line_start = self.mixed_line_ends(between);
        }
        let characters = between[line_start..].iter().filter(|&&b| b & 0xC0 != 0x80).count();
        self.column = self.column.saturating_add(u32::try_from(characters).unwrap_or(u32::MAX));
        self.at = offset;
        (self.line, self.column)
    }

    /// Counts the lines that end in `between`, which starts where this stands; answers with where the last one starts.
    fn mixed_line_ends(&mut self, between: &[u8]) -> usize {
        let mut line_start = 0;
        for at in memchr::memchr2_iter(b'\n', b'\r', between) {
            let is_first_of_pair = between[at] == b'\r' && self.source.get(self.at + at + 1) == Some(&b'\n');
            if !is_first_of_pair {
                self.line = self.line.saturating_add(1);
                self.column = 1;
                line_start = at + 1;
            }
        }
        line_start
    }
}

#[cfg(test)]
mod tests {
    use super::{Locator, locate};
    use crate::testing::Random;

    #[test]
    fn all_line_ends_count_once() {
        let source = b"a\nb\r\nc\rd";
        assert_eq!(locate(source, 0), (1, 1));
        assert_eq!(locate(source, 1), (1, 2));
        assert_eq!(locate(source, 2), (2, 1));
        assert_eq!(locate(source, 4), (2, 3), "between CR and LF the line goes on");
        assert_eq!(locate(source, 5), (3, 1));
        assert_eq!(locate(source, 7), (4, 1));
        assert_eq!(locate(source, 99), (4, 2), "an offset past the end is the end");
    }

    #[test]
    fn columns_are_characters_and_the_mark_is_none() {
        assert_eq!(locate("\u{FEFF}é€😀x".as_bytes(), 3), (1, 1));
        assert_eq!(locate("\u{FEFF}é€😀x".as_bytes(), 3 + 2 + 3 + 4), (1, 4));
    }

    /// In whatever order positions are asked for, each is what counting from the beginning gives.
    #[test]
    fn many_places_are_each_as_if_asked_alone() {
        let pieces = ["a", "\n", "\r", "\r\n", "é", "€", "😀", "xyz"];
        for seed in 1_u64..40 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut text = if random.below(3) == 0 { "\u{FEFF}".to_owned() } else { String::new() };
            let first = text.len();
            (0..random.below(60)).for_each(|_| text += pieces[random.below(pieces.len())]);
            let mut locator = Locator::new(text.as_bytes());
            let mut offset = first;
            for _ in 0..60 {
                offset = if random.below(6) == 0 { random.below(text.len() + 2) } else { offset + random.below(4) };
                let before = &text.as_bytes()[first.min(offset.min(text.len()))..offset.min(text.len())];
                let ends = |at: usize| match before[at] {
                    b'\n' => true,
                    b'\r' => text.as_bytes().get(first + at + 1) != Some(&b'\n'),
                    _ => false,
                };
                let line_ends: Vec<usize> = (0..before.len()).filter(|&at| ends(at)).collect();
                let line = &before[line_ends.last().map_or(0, |last| last + 1)..];
                let column = 1 + line.iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
                assert_eq!(locator.locate(offset), (1 + line_ends.len() as u32, column as u32), "{text:?} at {offset}");
                assert_eq!(locate(text.as_bytes(), offset), (1 + line_ends.len() as u32, column as u32));
            }
        }
    }
}
