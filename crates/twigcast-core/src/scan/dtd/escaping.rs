//! Writes text where markup would be read.

/// Appends text with everything escaped that would mean something else, also together with what follows.
pub fn escape_text(text: &str, out: &mut Vec<u8>) {
    let last = text.trim_end_matches(']').len();
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'\r' => out.extend_from_slice(b"&#13;"),
            b']' if at >= last => out.extend_from_slice(b"&#93;"),
            _ => out.push(b),
        }
    }
}

/// Appends the value of an attribute, for between quotes of either kind.
pub fn escape_value(value: &str, out: &mut Vec<u8>) {
    for b in value.bytes() {
        match b {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            b'\'' => out.extend_from_slice(b"&apos;"),
            b'\t' => out.extend_from_slice(b"&#9;"),
            b'\n' => out.extend_from_slice(b"&#10;"),
            b'\r' => out.extend_from_slice(b"&#13;"),
            _ => out.push(b),
        }
    }
}
