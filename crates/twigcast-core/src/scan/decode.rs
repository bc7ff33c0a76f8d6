//! Raw slices of a message to the values that XML gives them.
//!
//! Both functions take what the scanner has accepted. Given anything else they stay total: what is no reference is
//! kept as it stands.

use crate::scan::references::{numbered, predefined};

const CDATA_START: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

/// Returns the value of a raw text run: references replaced, CDATA markup removed, line ends normalised to LF.
pub fn text(raw: &str) -> String {
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr3(b'&', b'<', b'\r', rest.as_bytes()) {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = match rest.as_bytes()[0] {
            b'&' => reference(rest, &mut value),
            b'\r' => line_end(rest, '\n', &mut value),
            _ => cdata(rest, &mut value),
        };
    }
    value.push_str(rest);
    value
}

/// Returns the value of a raw attribute value: references replaced, white space characters normalised to spaces.
pub fn attribute(raw: &str) -> String {
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.bytes().position(|b| matches!(b, b'&' | b'\t' | b'\n' | b'\r')) {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = match rest.as_bytes()[0] {
            b'&' => reference(rest, &mut value),
            b'\r' => line_end(rest, ' ', &mut value),
            _ => {
                value.push(' ');
                &rest[1..]
            }
        };
    }
    value.push_str(rest);
    value
}

/// Appends the character behind the reference that `rest` starts with; answers with what follows.
fn reference<'a>(rest: &'a str, value: &mut String) -> &'a str {
    if let Some(end) = memchr::memchr(b';', rest.as_bytes()) {
        let inside = &rest.as_bytes()[1..end];
        if let Some(c) = predefined(inside).or_else(|| numbered(inside)) {
            value.push(c);
            return &rest[end + 1..];
        }
    }
    value.push('&');
    &rest[1..]
}

/// Appends `replacement` for the CR or CR LF that `rest` starts with; answers with what follows.
fn line_end<'a>(rest: &'a str, replacement: char, value: &mut String) -> &'a str {
    value.push(replacement);
    rest.strip_prefix("\r\n").unwrap_or(&rest[1..])
}

/// Appends the content of the CDATA section that `rest` starts with; answers with what follows.
fn cdata<'a>(rest: &'a str, value: &mut String) -> &'a str {
    let Some(inside) = rest.strip_prefix(CDATA_START) else {
        value.push('<');
        return &rest[1..];
    };
    let (mut content, after) = inside.split_once(CDATA_END).unwrap_or((inside, ""));
    while let Some(at) = memchr::memchr(b'\r', content.as_bytes()) {
        value.push_str(&content[..at]);
        content = line_end(&content[at..], '\n', value);
    }
    value.push_str(content);
    after
}

#[cfg(test)]
mod tests {
    use super::{attribute, text};

    #[test]
    fn text_values() {
        for (raw, value) in [
            ("plain", "plain"),
            ("a&amp;b&lt;&gt;&quot;&apos;", "a&b<>\"'"),
            ("&#65;&#x42;&#x1F600;", "AB😀"),
            ("a\r\nb\rc\n", "a\nb\nc\n"),
            ("&#13;\r\n", "\r\n"),
            ("x<![CDATA[<&amp;>\r\n]]]]>y&#x20;", "x<&amp;>\n]]y "),
            ("<![CDATA[]]><![CDATA[a]]>", "a"),
            ("\t", "\t"),
        ] {
            assert_eq!(text(raw), value, "{raw:?}");
        }
    }

    #[test]
    fn attribute_values() {
        for (raw, value) in [
            ("a\tb\nc\r\nd\re", "a b c d e"),
            ("&#9;&#10;&#13;&#xA;", "\t\n\r\n"),
            ("&lt;é&amp;amp;", "<é&amp;"),
            ("\r\r\n\n", "   "),
        ] {
            assert_eq!(attribute(raw), value, "{raw:?}");
        }
    }

    #[test]
    fn other_input_is_kept() {
        for raw in ["&", "&;", "&nbsp;", "&#0;", "&#xZ;", "&#99999999999;", "<", "<b>"] {
            assert_eq!(text(raw), raw);
        }
        assert_eq!(text("<![CDATA[open"), "open");
    }
}
