//! All text of a message in one piece, so that the string-value of any element is a slice of it.
//!
//! Without it, reading the string-value of an element goes through its descendants; to read that of each of many nested
//! elements, or that of one parent for each of its children, then takes time in proportion to the square of the message.

use memchr::memmem;

use crate::document::{Document, Message, NodeId, NodeKind};

/// Bytes of text after which the number of characters so far is noted.
const STRIDE: usize = 256;

/// The text of a message.
#[derive(Debug)]
pub(super) struct MessageText {
    text: String,
    /// Where the text of each node starts, and where all text ends.
    starts: Box<[u32]>,
    /// Characters before each stride; empty if each is one byte.
    characters: Box<[u32]>,
}

/// A slice of the text.
pub(super) type TextRange = std::ops::Range<usize>;

impl MessageText {
    /// Returns the bytes that the text of a message may take at most.
    pub(super) fn bytes_at_most(message: Message<'_>) -> usize {
        message.source.len() + size_of::<u32>() * (message.document.nodes.len() + 1 + message.source.len() / STRIDE)
    }

    pub(super) fn new(message: Message<'_>) -> Self {
        let nodes = &message.document.nodes;
        let mut text = String::new();
        let mut starts = Vec::with_capacity(nodes.len() + 1);
        for (id, node) in (0..).zip(nodes) {
            // No longer than the message, whose offsets have 32 bits.
            starts.push(text.len() as u32);
            if node.kind == NodeKind::Text {
                text.push_str(&message.text(id));
            }
        }
        starts.push(text.len() as u32);
        let characters = if text.is_ascii() { Box::default() } else { characters_before(&text) };
        Self { text, starts: starts.into(), characters }
    }

    /// Returns its size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.capacity() + size_of::<u32>() * (self.starts.len() + self.characters.len())
    }

    /// Returns the range of the string-value of an element or the document node.
    pub(super) fn range(&self, document: &Document, node: NodeId) -> TextRange {
        let end = document.nodes[node as usize].end;
        self.starts[node as usize] as usize..self.starts[end as usize] as usize
    }

    /// Returns `true` if each character is one byte.
    pub(super) fn is_ascii(&self) -> bool {
        self.characters.is_empty()
    }

    /// Returns the whole text.
    pub(super) fn all(&self) -> &str {
        &self.text
    }

    /// Returns a slice of the text.
    pub(super) fn slice(&self, range: TextRange) -> &str {
        &self.text[range]
    }

    /// Returns how many characters a slice has.
    pub(super) fn count(&self, range: TextRange) -> usize {
        if self.characters.is_empty() {
            range.len()
        } else {
            self.count_before(range.end) - self.count_before(range.start)
        }
    }

    fn count_before(&self, end: usize) -> usize {
        let stride = end / STRIDE;
        self.characters[stride] as usize + starting_in(&self.text.as_bytes()[stride * STRIDE..end])
    }

    /// Returns where in the text a part of it occurs, also where occurrences overlap; nothing if there are more than
    /// `most`.
    pub(super) fn occurrences(&self, part: &str, most: usize) -> Option<Box<[u32]>> {
        let finder = memmem::Finder::new(part);
        let mut matches = Vec::new();
        let mut from = 0;
        while let Some(at) = self.text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
            if matches.len() == most {
                return None;
            }
            matches.push((from + at) as u32);
            from += at + 1;
        }
        Some(matches.into())
    }
}

/// Returns how many characters start in bytes of UTF-8.
fn starting_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

fn characters_before(text: &str) -> Box<[u32]> {
    let mut count = 0;
    let strides = text.as_bytes().chunks(STRIDE);
    let before = strides.map(|stride| {
        let before = count;
        count += starting_in(stride) as u32;
        before
    });
    let mut before: Vec<u32> = before.collect();
    before.push(count);
    before.into()
}
