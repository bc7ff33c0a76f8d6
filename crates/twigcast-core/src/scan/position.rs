//! Byte offsets to lines and columns, counted only when somebody asks.

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Line and column of a byte offset, both from 1. Lines end with LF, CR LF or CR; columns count characters; a
/// byte-order mark counts as nothing.
pub fn locate(source: &[u8], offset: usize) -> (u32, u32) {
    let before = &source[..offset.min(source.len())];
    let before = before.strip_prefix(BYTE_ORDER_MARK).unwrap_or(before);
    let mut line = 1u32;
    let mut line_start = 0;
    for at in memchr::memchr2_iter(b'\n', b'\r', before) {
        let first_of_pair = before[at] == b'\r' && source_byte_after(source, before, at) == Some(b'\n');
        if !first_of_pair {
            line = line.saturating_add(1);
            line_start = at + 1;
        }
    }
    let column = before[line_start..].iter().filter(|&&b| b & 0xC0 != 0x80).count() + 1;
    (line, u32::try_from(column).unwrap_or(u32::MAX))
}

/// The byte after offset `at` of `before`, which may lie beyond its end.
fn source_byte_after(source: &[u8], before: &[u8], at: usize) -> Option<u8> {
    let skipped = if source.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    before.get(at + 1).or_else(|| source.get(skipped + at + 1)).copied()
}

#[cfg(test)]
mod tests {
    use super::locate;

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
}
