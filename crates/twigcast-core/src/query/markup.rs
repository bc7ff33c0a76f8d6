//! The characters of direct constructors: text, white space, names, and declarations that are looked for ahead.

use super::flwr::ElementContent;
use super::lexer::{is_name_character, is_name_start_character, is_space};

/// Constant text of an element's content, up to the next markup.
#[derive(Default)]
pub(super) struct ConstantText {
    text: String,
    /// Holds something else than white space written as such.
    kept: bool,
}

impl ConstantText {
    pub fn push(&mut self, text: &str) {
        self.kept |= !text.bytes().all(is_space);
        self.text.push_str(&line_ends(text));
    }

    pub fn push_kept(&mut self, text: &str) {
        self.kept = true;
        self.text.push_str(text);
    }

    pub fn end(&mut self, content: &mut Vec<ElementContent>) {
        let kept = std::mem::take(&mut self.kept);
        let text = std::mem::take(&mut self.text);
        if kept && !text.is_empty() {
            content.push(ElementContent::Text(text.into()));
        }
    }
}

pub(super) fn flush(text: &mut String, push: impl FnOnce(Box<str>)) {
    if !text.is_empty() {
        push(std::mem::take(text).into());
    }
}

/// Returns a text with the line ends of XML: CR LF and CR become LF.
pub(super) fn line_ends(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.into() }
}

pub(super) fn space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

/// Moves past white space. Returns whether there was any.
pub(super) fn skip_space(text: &str, position: &mut usize) -> bool {
    let start = *position;
    while text.as_bytes().get(*position).copied().is_some_and(is_space) {
        *position += 1;
    }
    *position > start
}

/// Returns the bytes of the NCName that a text starts with; 0 if it starts with none.
pub(super) fn ncname_length(text: &str) -> usize {
    let mut length = 0;
    for character in text.chars() {
        let fits = if length == 0 { is_name_start_character(character) } else { is_name_character(character) };
        if !fits {
            break;
        }
        length += character.len_utf8();
    }
    length
}

/// Returns the namespace declarations of the start tag whose attributes begin at an offset: prefix, offset and raw text
/// of the URI. Anything malformed ends the search; the parser proper will come to it.
pub(super) fn namespace_declarations(text: &str, from: usize) -> Vec<(&str, usize, &str)> {
    let mut result = Vec::new();
    let mut position = from;
    loop {
        skip_space(text, &mut position);
        let name_start = position;
        let rest = &text[position..];
        let length = rest.find(|c: char| c != ':' && !is_name_character(c)).unwrap_or(rest.len());
        position += length;
        let name = &text[name_start..position];
        skip_space(text, &mut position);
        if name.is_empty() || !text[position..].starts_with('=') {
            return result;
        }
        position += 1;
        skip_space(text, &mut position);
        let Some(end) = value_end(text, position) else { return result };
        let value = &text[position + 1..end - 1];
        match name.strip_prefix("xmlns") {
            Some("") => result.push(("", position + 1, value)),
            Some(prefix) if prefix.len() > 1 && prefix.starts_with(':') => {
                result.push((&prefix[1..], position + 1, value));
            }
            _ => {}
        }
        position = end;
    }
}

/// Returns the offset one past the end of the quoted value at an offset. Inside `{ }` quotes belong to strings of the
/// enclosed expression.
pub(super) fn value_end(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let quote = *bytes.get(start).filter(|quote| matches!(quote, b'"' | b'\''))?;
    let (mut position, mut depth) = (start + 1, 0usize);
    while let Some(&byte) = bytes.get(position) {
        position += 1;
        match byte {
            b'{' if depth == 0 && bytes.get(position) == Some(&b'{') => position += 1,
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b'"' | b'\'' if depth > 0 => position += memchr::memchr(byte, bytes.get(position..)?)? + 1,
            _ if byte == quote && bytes.get(position) == Some(&quote) => position += 1,
            _ if byte == quote => return Some(position),
            _ => {}
        }
    }
    None
}
