//! Writes text where markup would be read.

/// Appends text with everything escaped that would mean something else, also together with what follows.
pub fn escape_text(text: &str, out: &mut String) {
    let last = text.trim_end_matches(']').len();
    let escape = |at: usize, b: u8| match b {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'>' => Some("&gt;"),
        b'\r' => Some("&#13;"),
        b']' if at >= last => Some("&#93;"),
        _ => None,
    };
    escape_where(text, escape, out);
}

/// Appends the value of an attribute, for between quotes of either kind.
pub fn escape_value(value: &str, out: &mut String) {
    let escape = |_: usize, b: u8| match b {
        b'&' => Some("&amp;"),
        b'<' => Some("&lt;"),
        b'"' => Some("&quot;"),
        b'\'' => Some("&apos;"),
        b'\t' => Some("&#9;"),
        b'\n' => Some("&#10;"),
        b'\r' => Some("&#13;"),
        _ => None,
    };
    escape_where(value, escape, out);
}

/// Appends a text with some of its ASCII characters escaped.
#[inline(always)]
fn escape_where(text: &str, escape: impl Fn(usize, u8) -> Option<&'static str>, out: &mut String) {
    let mut written = 0;
    for (at, b) in text.bytes().enumerate() {
        if let Some(escaped) = escape(at, b) {
            out.push_str(&text[written..at]);
            out.push_str(escaped);
            written = at + 1;
        }
    }
    out.push_str(&text[written..]);
}
