//! The bytes of a result.

use super::ExtractError;

/// A result under construction, with a limit on its size.
pub(super) struct Output {
    pub bytes: Vec<u8>,
    bytes_max: usize,
}

impl Output {
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), bytes_max }
    }

    /// The result; the next one starts empty. A small result is copied, so that its buffer can be used again and what is
    /// handed over is no larger than it need be; a large one is handed over as it is.
    pub fn finished(&mut self) -> Vec<u8> {
        const COPIED_MAX: usize = 1 << 16;
        if self.bytes.len() > COPIED_MAX { std::mem::take(&mut self.bytes) } else { self.bytes.clone() }
    }

    /// Appends bytes that are fit to stand here.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ExtractError> {
        if bytes.len() > self.bytes_max - self.bytes.len() {
            return Err(ExtractError::TooLarge { bytes_max: self.bytes_max });
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends a text run as it stands in the message. `]]>` may not arise where two runs meet.
    pub fn push_raw_text(&mut self, text: &[u8]) -> Result<(), ExtractError> {
        let brackets = text.iter().take(2).take_while(|&&byte| byte == b']').count();
        let meets = text.get(brackets) == Some(&b'>') && self.bytes.ends_with(&b"]]"[brackets..]);
        if !meets || brackets == 2 {
            return self.push(text);
        }
        self.push(&text[..brackets])?;
        self.push(b"&gt;")?;
        self.push(&text[brackets + 1..])
    }

    /// Appends text, escaped for element content.
    pub fn push_text(&mut self, text: &str) -> Result<(), ExtractError> {
        escape(text, false, |bytes| self.push(bytes))
    }

    /// Appends text, escaped for an attribute in double quotes.
    pub fn push_attribute_text(&mut self, text: &str) -> Result<(), ExtractError> {
        escape(text, true, |bytes| self.push(bytes))
    }
}

/// Text as markup, in pieces. White space that a parser would change becomes references.
fn escape<E>(text: &str, in_attribute: bool, mut push: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    let bytes = text.as_bytes();
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let reference: &[u8] = match byte {
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            b'\r' => b"&#13;",
            b'"' if in_attribute => b"&quot;",
            b'\t' if in_attribute => b"&#9;",
            b'\n' if in_attribute => b"&#10;",
            _ => continue,
        };
        push(&bytes[plain..at])?;
        push(reference)?;
        plain = at + 1;
    }
    push(&bytes[plain..])
}

/// Text escaped for element content.
pub(super) fn escaped(text: &str, in_attribute: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let done: Result<(), std::convert::Infallible> = escape(text, in_attribute, |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    });
    match done {
        Ok(()) => out,
    }
}
