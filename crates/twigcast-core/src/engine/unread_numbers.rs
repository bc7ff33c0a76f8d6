//! Records values with exponents that comparisons met. XPath 1.0 reads them as no number, which authors of queries may not
//! know.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::document::{Message, NodeId, NodeKind};
use crate::util::number::{self, SPACES};

/// The most paths that are kept, and the most messages in which values are sought.
const PATHS_MAX: usize = 16;
const SEARCHES_MAX: u32 = 256;

/// A value that was read as no number.
#[derive(Debug, PartialEq, Eq)]
pub struct UnreadNumber {
    /// The names of the elements down to the value, as written; empty if it is neither an attribute nor the only text of its
    /// element.
    pub path: Box<str>,
    /// The first value that was met there.
    pub value: Box<str>,
}

/// A record of such values that matching has met, in all versions of a population. It is read and written without locks.
#[derive(Debug, Default)]
pub struct UnreadNumbers {
    count: AtomicU64,
    searches: AtomicU32,
    found: [OnceLock<UnreadNumber>; PATHS_MAX],
}

impl UnreadNumbers {
    /// Returns how often a value was read so.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the first value of each path.
    pub fn values(&self) -> impl Iterator<Item = &UnreadNumber> {
        self.found.iter().filter_map(OnceLock::get)
    }

    /// Notes what the calling thread has met in a message.
    #[inline]
    pub(super) fn note(&self, message: Message<'_>) {
        if let Some(unread) = number::take_unread() {
            self.note_in(message, &unread);
        }
    }

    #[cold]
    fn note_in(&self, message: Message<'_>, unread: &number::UnreadTexts) {
        if self.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_MAX {
            for text in &unread.texts {
                let mut paths = paths_to(message, text);
                if paths.is_empty() {
                    paths.push(String::new());
                }
                paths.into_iter().for_each(|path| self.keep(&path, text));
            }
        }
        // After the paths, so that whoever sees the number finds them.
        self.count.fetch_add(unread.count, Ordering::Release);
    }

    fn keep(&self, path: &str, value: &str) {
        for place in &self.found {
            let kept = place.get_or_init(|| UnreadNumber { path: path.into(), value: value.into() });
            if *kept.path == *path {
                return;
            }
        }
    }
}

/// Returns the paths of the attributes and elements that have a value, each once.
fn paths_to(message: Message<'_>, value: &str) -> Vec<String> {
    let Message { source, document } = message;
    let is_value = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok_and(|text| text.trim_matches(SPACES) == value);
    let mut paths = Vec::new();
    for attribute in &document.attributes {
        if is_value(attribute.value.of(source)) {
            let name = std::str::from_utf8(attribute.qname.of(source)).unwrap_or_default();
            paths.extend(path_of(message, attribute.owner).map(|path| format!("{path}/@{name}")));
        }
    }
    for node in &document.nodes {
        if node.kind == NodeKind::Text && is_value(node.span.of(source)) {
            paths.extend(path_of(message, node.parent));
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Returns the names of an element and of those around it; `None` if the message does not contain them as text, like an
/// element stream.
fn path_of(message: Message<'_>, mut element: NodeId) -> Option<String> {
    let mut names = Vec::new();
    while element != 0 {
        let node = message.document.nodes.get(element as usize)?;
        let tag = node.span.of(message.source).strip_prefix(b"<")?;
        let end = tag.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'/' | b'>'))?;
        names.push(std::str::from_utf8(&tag[..end]).ok()?);
        element = node.parent;
    }
    names.reverse();
    Some(names.iter().map(|name| format!("/{name}")).collect())
}
