//! Expands the texts of entities for the places where they are referred to (XML 1.0, section 4.4).
//!
//! Each entity is expanded once for content and once for attribute values, and what all of them come to is bounded: the
//! copies that references make are counted as well.

use std::ops::Range;
use std::sync::Arc;

use super::chain::{DeclarationChain, ElementDeclarations};
use super::declarations::{Declarations, Entity};
use super::escaping::{escape_text, escape_value};
use super::tag_ranges::TagRanges;
use super::text_table::TextTable;
use super::tokens::{is_normal, tokens, write_plain_tokens};
use crate::scan::bytes::{SPACE, byte, is, name_at};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult, shown};
use crate::scan::references::{UNDECLARED_CURE, UNDECLARED_HTML, numbered, predefined, undeclared_reason};
use crate::util::packed_name::PackedName;

/// The factor by which entities may lengthen a message once they exceed [`AMPLIFICATION_FREE_BYTES`].
const AMPLIFICATION_MAX: usize = 100;
/// Bytes that entities may come to in any message.
const AMPLIFICATION_FREE_BYTES: usize = 8 << 20;

/// The texts that entities come to, for all parts of a document.
#[derive(Debug, Default)]
pub struct EntityTexts {
    contents: TextTable,
    values: TextTable,
    /// The values as they have to stand in start tags.
    written_values: TextTable,
    tag: TagRanges,
    /// The bytes of all texts.
    pub bytes: usize,
}

/// Expands entities at the places where they are referred to.
pub struct Expander<'t, 'd> {
    chain: DeclarationChain<'d>,
    texts: &'t mut EntityTexts,
    /// The entities that are being expanded.
    open: Vec<Box<[u8]>>,
    /// The place where the message refers to the outermost of them.
    pub at: usize,
    /// The last element with declared attributes, by a key that has all of its name.
    last: Option<(PackedName, ElementDeclarations<'d>)>,
    expanded_bytes: usize,
    expanded_bytes_max: usize,
}

impl<'t, 'd> Expander<'t, 'd> {
    /// Creates an expander for a message of so many bytes. `texts`: those of the same declarations.
    pub fn new(chain: DeclarationChain<'d>, message_bytes: usize, texts: &'t mut EntityTexts) -> Self {
        Self {
            chain,
            texts,
            open: Vec::new(),
            at: 0,
            last: None,
            expanded_bytes: 0,
            expanded_bytes_max: message_bytes.saturating_mul(AMPLIFICATION_MAX).max(AMPLIFICATION_FREE_BYTES),
        }
    }

    /// Returns what is declared for an element. `key` is that of its name.
    #[inline(always)]
    fn of_element(&mut self, name: &[u8], key: PackedName) -> ElementDeclarations<'d> {
        if let Some((last, declarations)) = self.last
            && last == key
        {
            return declarations;
        }
        let declarations = self.chain.of_element(name);
        if !key.is_cut() {
            self.last = Some((key, declarations));
        }
        declarations
    }

    /// Counts bytes that an entity comes to.
    fn charge(&mut self, bytes: usize) -> ScanResult<()> {
        self.expanded_bytes += bytes;
        if self.expanded_bytes <= self.expanded_bytes_max {
            return Ok(());
        }
        let reason = "the entities of the message expand to far more than the message itself";
        Err(Fault::fixed_limit(self.at, "entity_amplification_max", AMPLIFICATION_MAX, reason))
    }

    fn fault(&self, reason: impl Into<String>) -> Fault {
        Fault::malformed(self.at, reason)
    }

    /// Begins to expand an entity, whose replacement text is the answer.
    fn enter(&mut self, name: &[u8]) -> ScanResult<&'d str> {
        let entity = shown(name);
        if self.open.iter().any(|open| **open == *name) {
            return Err(self.fault(format!("the entity {entity:?} refers to itself")));
        }
        let text = match self.chain.entity(name) {
            Some(Entity::Text(text)) => text,
            Some(Entity::External(system)) => {
                let system = shown(system.as_bytes());
                return Err(self.fault(format!(
                    "the entity {entity:?} is external (SYSTEM {system:?}): nothing outside of a message is read, so put \
                     its text into the message"
                )));
            }
            Some(Entity::Unparsed) => return Err(self.fault(format!("the entity {entity:?} is no text"))),
            Some(Entity::Hidden) | None => return Err(self.undeclared(&entity)),
        };
        self.open.push(name.into());
        Ok(text)
    }

    fn undeclared(&self, entity: &str) -> Fault {
        let has_sets = self.chain.sets.is_some();
        let html = if has_sets { "" } else { UNDECLARED_HTML };
        let reason = match &self.chain.own.unread {
            _ if self.chain.external.is_some() => {
                format!(
                    "neither the message nor the DTD that was given declares the entity {entity:?}: declare it{html}"
                )
            }
            Some(unread) => format!(
                "the message does not declare the entity {entity:?}, and its DTD ({unread}) is not read: read the message \
                 with that DTD (--dtd FILE, dtd=FILE){html}"
            ),
            None if self.chain.own.refers_to_parameters => {
                format!("the message does not declare the entity {entity:?}: {UNDECLARED_CURE}{html}")
            }
            None if has_sets => {
                format!("undeclared entity {entity:?}, which is no name of HTML or ISO either: {UNDECLARED_CURE}")
            }
            None => undeclared_reason(entity.as_bytes()),
        };
        self.fault(reason)
    }

    /// Appends the value that an attribute has, with references resolved and white space as spaces.
    fn value(&mut self, raw: &str, out: &mut String) -> ScanResult<()> {
        let bytes = raw.as_bytes();
        let mut at = 0;
        loop {
            let stop = |b: &u8| matches!(b, b'&' | b'<' | b'\t' | b'\n' | b'\r');
            let plain = bytes[at..].iter().position(stop).unwrap_or(bytes.len() - at);
            out.push_str(&raw[at..at + plain]);
            at += plain;
            match byte(bytes, at) {
                0 => return Ok(()),
                b'<' => return Err(self.fault("\"<\" may not stand in the value of an attribute, nor in its entities")),
                b'&' => {
                    let (name, end) = self.reference(bytes, at)?;
                    match predefined(name).or_else(|| numbered(name)) {
                        Some(character) => out.push(character),
                        None => out.push_str(&self.entity_value(name)?),
                    }
                    at = end;
                }
                first => {
                    // Line ends of the message count as one character, those of entities were made by references.
                    let is_pair = first == b'\r' && self.open.is_empty() && byte(bytes, at + 1) == b'\n';
                    out.push(' ');
                    at += if is_pair { 2 } else { 1 };
                }
            }
        }
    }

    /// Counts bytes of a text that is kept.
    fn kept(&mut self, text: String) -> Arc<str> {
        self.texts.bytes += text.len();
        text.into()
    }

    /// Returns what stands between the `&` at `at` and its `;`, and what follows.
    fn reference<'b>(&self, bytes: &'b [u8], at: usize) -> ScanResult<(&'b [u8], usize)> {
        let name = memchr::memchr(b';', &bytes[at..]).map(|length| &bytes[at + 1..at + length]);
        let is_whole = |name: &&[u8]| !name.is_empty() && !name.iter().any(|&b| is(b, SPACE) || b"<>&\"'".contains(&b));
        match name.filter(is_whole) {
            Some(name) if name[0] != b'#' || numbered(name).is_some() => Ok((name, at + name.len() + 2)),
            _ => {
                let text = shown(&bytes[at..bytes.len().min(at + 12)]);
                Err(self.fault(format!("the reference {text:?} is not whole, or stands for no character")))
            }
        }
    }

    fn entity_value(&mut self, name: &[u8]) -> ScanResult<Arc<str>> {
        let value = match self.texts.values.get(name, PackedName::of(name)) {
            Some(value) => Arc::clone(value),
            None => {
                let text = self.enter(name)?;
                let mut value = String::new();
                self.value(text, &mut value)?;
                self.open.pop();
                let value = self.kept(value);
                self.texts.values.insert(name, Arc::clone(&value));
                value
            }
        };
        self.charge(value.len())?;
        Ok(value)
    }

    /// Writes the text of an entity as it has to stand in the value of an attribute, between quotes of either kind. `key`
    /// is that of the name.
    pub fn write_value(&mut self, name: &[u8], key: PackedName, out: &mut String) -> ScanResult<()> {
        if let Some(value) = self.texts.written_values.get(name, key) {
            out.push_str(value);
            let length = value.len();
            return self.charge(length);
        }
        let start = out.len();
        escape_value(&self.entity_value(name)?, out);
        let value = self.kept(out[start..].into());
        self.texts.written_values.insert(name, value);
        Ok(())
    }

    /// Writes the text of an entity as it has to stand in content, with all references to entities resolved. `key` is that of
    /// the name.
    pub fn write_content(&mut self, name: &[u8], key: PackedName, out: &mut String) -> ScanResult<()> {
        if let Some(content) = self.texts.contents.get(name, key) {
            out.push_str(content);
            let length = content.len();
            return self.charge(length);
        }
        out.push_str(&self.entity_content(name)?);
        Ok(())
    }

    fn entity_content(&mut self, name: &[u8]) -> ScanResult<Arc<str>> {
        let content = match self.texts.contents.get(name, PackedName::of(name)) {
            Some(content) => Arc::clone(content),
            None => {
                let text = self.enter(name)?;
                let mut content = String::new();
                self.content(text, &mut content)?;
                self.open.pop();
                let content = self.kept(content);
                self.texts.contents.insert(name, Arc::clone(&content));
                content
            }
        };
        self.charge(content.len())?;
        Ok(content)
    }

    /// Writes the replacement text of an entity as content. Its elements, and all other markup, have to end within it.
    fn content(&mut self, text: &'d str, out: &mut String) -> ScanResult<()> {
        let bytes = text.as_bytes();
        let whole = |found: Option<usize>, at: usize, ending: &str| found.map(|length| at + length + ending.len());
        let (mut at, mut depth) = (0, 0usize);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = if rest.starts_with(b"<![CDATA[") {
                let end = whole(memchr::memmem::find(rest, b"]]>"), at, "]]>");
                if let Some(end) = end {
                    escape_text(&text[at + 9..end - 3], out);
                }
                end
            } else if rest.starts_with(b"<!--") {
                let end = whole(memchr::memmem::find(&rest[4..], b"-->"), at + 4, "-->");
                out.push_str(&text[at..end.unwrap_or(at)]);
                end
            } else if rest.starts_with(b"<?") {
                let end = whole(memchr::memmem::find(rest, b"?>"), at, "?>");
                out.push_str(&text[at..end.unwrap_or(at)]);
                end
            } else if rest.starts_with(b"</") {
                let end = whole(memchr::memchr(b'>', rest), at, ">");
                out.push_str(&text[at..end.unwrap_or(at)]);
                (depth, end.filter(|_| depth > 0)).1.inspect(|_| depth -= 1)
            } else if rest[0] == b'<' {
                let end = self.start_tag(text, at, out)?;
                depth += usize::from(end.is_some_and(|end| bytes[end - 2] != b'/'));
                end
            } else if rest[0] == b'&' {
                let (name, end) = self.reference(bytes, at)?;
                match predefined(name).or_else(|| numbered(name)) {
                    Some(_) => out.push_str(&text[at..end]),
                    None => self.write_content(name, PackedName::of(name), out)?,
                }
                Some(end)
            } else {
                let length = memchr::memchr2(b'<', b'&', rest).unwrap_or(rest.len());
                let data = &text[at..at + length];
                escape_text(data, out);
                Some(at + length).filter(|_| !data.contains("]]>"))
            };
            let Some(end) = end else { return Err(self.unbalanced()) };
            at = end;
        }
        if depth > 0 { Err(self.unbalanced()) } else { Ok(()) }
    }

    #[cold]
    fn unbalanced(&self) -> Fault {
        let entity = self.open.last().map_or_else(String::new, |name| shown(name));
        self.fault(format!("the elements and other markup in the entity {entity:?} have to begin and end within it"))
    }

    /// Writes the start tag at `start` with all that is declared for it; answers with what follows. None, and nothing
    /// written: it is no start tag.
    pub fn start_tag(&mut self, text: &str, start: usize, out: &mut String) -> ScanResult<Option<usize>> {
        let source = text.as_bytes();
        let mut tag = std::mem::take(&mut self.texts.tag);
        let read = tag.read(source, start);
        let done = match read {
            None => Ok(None),
            Some((name_end, last, end)) => {
                let name = &source[start + 1..name_end];
                let key = match name_at(source, start + 1) {
                    (end, key) if end == name_end => key,
                    _ => PackedName::of(name),
                };
                let of_element = self.of_element(name, key);
                self.declared_tag(text, (start, last, end), of_element, &tag, out).map(|()| Some(end))
            }
        };
        self.texts.tag = tag;
        done
    }

    fn declared_tag(
        &mut self,
        text: &str,
        (start, last, end): (usize, usize, usize),
        of_element: ElementDeclarations<'d>,
        tag: &TagRanges,
        out: &mut String,
    ) -> ScanResult<()> {
        let source = text.as_bytes();
        let mut written = start;
        if !self.open.is_empty()
            || of_element.iter().any(|declared| declared.is_tokenised)
            || memchr::memchr(b'&', &source[start..end]).is_some()
        {
            self.values_of_tag(text, &mut written, of_element, tag, out)?;
        }
        out.push_str(&text[written..last]);
        for declared in of_element.iter() {
            let Some(addition) = &declared.addition else { continue };
            if tag.value(source, &declared.name).is_none() {
                out.push_str(addition);
            }
        }
        out.push_str(&text[last..end]);
        Ok(())
    }

    /// Writes a start tag from `written` up to behind the last of its values that changes.
    fn values_of_tag(
        &mut self,
        text: &str,
        written: &mut usize,
        of_element: ElementDeclarations<'d>,
        tag: &TagRanges,
        out: &mut String,
    ) -> ScanResult<()> {
        let source = text.as_bytes();
        let in_entity = !self.open.is_empty();
        for (attribute, value) in &tag.attributes {
            let declared = of_element.iter().find(|declared| *declared.name == source[attribute.clone()]);
            let raw = &source[value.clone()];
            let normalises = declared.is_some_and(|declared| declared.is_tokenised && !is_normal(raw));
            let has_line_end = in_entity && memchr::memchr(b'\r', raw).is_some();
            if !(normalises || has_line_end || has_entity(raw)) {
                continue;
            }
            out.push_str(&text[*written..value.start]);
            *written = value.end;
            if normalises && write_tokens(&text[value.clone()], out) {
                continue;
            }
            if !in_entity {
                self.at = value.start;
            }
            let mut decoded = String::new();
            self.value(&text[value.clone()], &mut decoded)?;
            escape_value(&if normalises { tokens(&decoded) } else { decoded.into() }, out);
        }
        Ok(())
    }
}

/// Writes a value without spaces at its ends, and with single ones between. False, and nothing written: it has to be
/// decoded first.
fn write_tokens(value: &str, out: &mut String) -> bool {
    let is_plain = !value.bytes().any(|b| matches!(b, b'&' | b'<' | b'\t' | b'\n' | b'\r'));
    if is_plain {
        write_plain_tokens(value, out);
    }
    is_plain
}

/// Returns whether a value refers to an entity that is not predefined.
fn has_entity(raw: &[u8]) -> bool {
    memchr::memchr_iter(b'&', raw).any(|at| {
        let end = memchr::memchr(b';', &raw[at..]).map_or(raw.len(), |length| at + length);
        byte(raw, at + 1) != b'#' && predefined(&raw[at + 1..end]).is_none()
    })
}

/// Returns the value of the default in a declaration of an attribute: of entities, those declared before it count.
pub(super) fn attribute_text(
    checked: LegalText<'_>,
    literal: Range<usize>,
    declarations: &Declarations,
) -> ScanResult<String> {
    let chain = DeclarationChain { own: declarations, external: None, sets: None };
    let mut texts = EntityTexts::default();
    let mut expander = Expander::new(chain, checked.text.len(), &mut texts);
    expander.at = literal.start;
    let mut value = String::new();
    expander.value(&checked.text[literal], &mut value)?;
    Ok(value)
}
