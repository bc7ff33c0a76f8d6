//! Start and end tags: names, attributes, namespace declarations.

use crate::document::{Attribute, ByteRange, NamespaceDeclaration, Node, NodeId, NodeKind};
use crate::scan::bytes::{NAME_START, SPACE, byte, is, skip_spaces, value_stop};
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::lanes::{self, LANES};
use crate::scan::names::{QName, keyed_qname, qname};
use crate::scan::namespaces::Namespace;
use crate::scan::pass::{OpenElement, Prefixed, ScanPass, span};
use crate::scan::references;
use crate::util::packed_name::PackedName;
use crate::vocabulary::{LocalId, Name, NamespaceId};

/// Up to this many attributes of one tag are compared pair by pair; more are sorted.
const COMPARED_MAX: usize = 12;
/// "Not recorded" as an index of an attribute.
const NO_ATTRIBUTE: u32 = u32::MAX;
/// What the key of `xmlns` begins with.
const XMLNS: u64 = u64::from_le_bytes(*b"xmlns\0\0\0");

/// An attribute as most are written: `name="value"` with nothing to decode, and nothing beyond the lanes looked at.
struct PlainAttribute {
    name_length: usize,
    key: PackedName,
    value_length: usize,
}

/// Reads the attribute at `start`, where a byte stands that may start a name, if it is such a one.
#[inline(always)]
fn plain_attribute(source: &[u8], start: usize) -> Option<PlainAttribute> {
    let bytes: &[u8; 2 * LANES] = source.get(start..)?.first_chunk()?;
    let (first, second) = (bytes.first_chunk()?, bytes.last_chunk()?);
    let name_length = (lanes::no_name(first) | 1 << LANES).trailing_zeros() as usize;
    if bytes.get(name_length..name_length + 2)? != b"=\"" {
        return None;
    }
    let stops = lanes::no_value(first) | lanes::no_value(second) << LANES;
    let value_length = (stops >> (name_length + 2)).trailing_zeros() as usize;
    (*bytes.get(name_length + 2 + value_length)? == b'"').then(|| PlainAttribute {
        name_length,
        key: PackedName::of_start(first, name_length),
        value_length,
    })
}

/// What has been seen of the attributes of a tag.
#[derive(Default)]
struct AttributesSeen {
    /// A bit for each of their names, which some have in common.
    bits: u64,
    /// Two names have a bit in common.
    doubtful: bool,
}

impl AttributesSeen {
    #[inline(always)]
    fn add(&mut self, key: PackedName) {
        let bit = 1 << (key.hash() >> 58);
        self.doubtful |= self.bits & bit != 0;
        self.bits |= bit;
    }
}

impl ScanPass<'_> {
    /// Reads the start tag or empty-element tag at `start`.
    pub(super) fn start_tag(&mut self, start: usize) -> ScanResult<usize> {
        let outer = (self.bindings.count(), self.bindings.default);
        match self.tag_within(start, outer) {
            Err(fault) if fault.is_conversion() => {
                self.stop_before_tag(start, outer);
                Err(fault)
            }
            read => read,
        }
    }

    /// Forgets what has been read of the start tag at `start`, which has to be converted.
    #[cold]
    fn stop_before_tag(&mut self, start: usize, (outer_bindings, outer_default): (u32, NamespaceId)) {
        self.stopped_at = start;
        let node = self.document.nodes.len() as NodeId;
        self.document.attributes.truncate(self.document.nodes[node as usize - 1].attributes_end as usize);
        let declared = self.document.declarations.iter().rposition(|declaration| declaration.owner != node);
        self.document.declarations.truncate(declared.map_or(0, |last| last + 1));
        self.prefixed.clear();
        self.bindings.truncate(self.checked.text, outer_bindings);
        self.bindings.default = outer_default;
    }

    /// Reads a start tag. `outer`: the bindings and the default namespace around it.
    #[inline(always)]
    fn tag_within(&mut self, start: usize, (outer_bindings, outer_default): (u32, NamespaceId)) -> ScanResult<usize> {
        let source = self.source;
        let node = self.document.nodes.len() as NodeId;
        let (name, key) = keyed_qname(self.checked, start + 1, "element")?;
        if self.open.len() >= self.limits.depth_max {
            return Err(Fault::limit(start, "depth_max", self.limits.depth_max, "more open elements"));
        }
        let attributes_start = self.document.attributes.len() as u32;
        self.names.clear();
        let mut seen = AttributesSeen::default();
        let mut at = name.end;
        let empty = loop {
            // One space, and a name behind it: so are most attributes written.
            let mut next = at + 1;
            if byte(source, at) == b' ' && is(byte(source, next), NAME_START) {
                if let Some(PlainAttribute { name_length, key, value_length }) = plain_attribute(source, next) {
                    let name = QName { end: next + name_length, colon: 0 };
                    let value_end = name.end + 2 + value_length;
                    self.keep(node, next, (name, key), (span(name.end + 2, value_end), false), &mut seen)?;
                    at = value_end + 1;
                    continue;
                }
            } else {
                match byte(source, at) {
                    b'>' => break false,
                    b'/' if byte(source, next) == b'>' => {
                        at = next;
                        break true;
                    }
                    b if is(b, SPACE) => next = skip_spaces(source, next),
                    _ => return Err(self.tag_fault(start, name, at)),
                }
                if matches!(byte(source, next), b'>' | b'/') {
                    at = next;
                    continue;
                }
            }
            at = self.attribute(node, (start, name), next, &mut seen)?;
        };
        at += 1;
        self.finish_attributes(start, (name, key), &seen)?;
        let expanded = self.element_name(start + 1, name, key)?;
        self.document.nodes.push(Node {
            kind: NodeKind::Element,
            encoded: false,
            name: expanded,
            parent: self.open.last().map_or(0, |open| open.node),
            end: node + 1,
            span: span(start, at),
            content_start: at as u32,
            attributes_start,
            attributes_end: self.document.attributes.len() as u32,
        });
        if empty {
            self.bindings.truncate(self.checked.text, outer_bindings);
            self.bindings.default = outer_default;
        } else {
            let whole = span(start + 1, name.end);
            let key = if name.colon == 0 { key } else { PackedName::of(whole.of(source)) };
            self.open.push(OpenElement { node, name: whole, key, bindings: outer_bindings, default: outer_default });
        }
        Ok(at)
    }

    /// Checks the attributes of the start tag at `start` together.
    #[inline(always)]
    fn finish_attributes(&mut self, start: usize, name: (QName, PackedName), seen: &AttributesSeen) -> ScanResult<()> {
        if seen.doubtful {
            self.unique_names()?;
        }
        if !self.prefixed.is_empty() {
            self.resolve_prefixed()?;
        }
        if self.declares_attributes {
            self.declared_attributes(start, name)?;
        }
        Ok(())
    }

    /// Stops at the start tag at `start` if the DOCTYPE adds something to it.
    #[inline(never)]
    fn declared_attributes(&mut self, start: usize, (name, key): (QName, PackedName)) -> ScanResult<()> {
        let Some(declarations) = self.declarations.as_ref().filter(|declared| declared.may_change(key)) else {
            return Ok(());
        };
        match declarations.changes(self.source, start, &self.source[start + 1..name.end], &mut self.tag) {
            true => Err(Fault::conversion(start, "the DOCTYPE declares attributes of this element")),
            false => Ok(()),
        }
    }

    /// Reads the end tag at `start`; `open` is the element it has to close.
    pub(super) fn end_tag(&mut self, start: usize, open: OpenElement) -> ScanResult<usize> {
        let source = self.source;
        let name = open.name.of(source);
        let mut at = start + 2 + name.len();
        let matches = open.key.stands_at(source, start + 2, name);
        if !matches || byte(source, at) != b'>' {
            at = skip_spaces(source, at);
            if !matches || byte(source, at) != b'>' {
                return Err(self.end_tag_fault(start, open));
            }
        }
        at += 1;
        self.open.pop();
        self.bindings.truncate(self.checked.text, open.bindings);
        self.bindings.default = open.default;
        let end = self.document.nodes.len() as NodeId;
        let node = &mut self.document.nodes[open.node as usize];
        node.end = end;
        node.span.end = at as u32;
        Ok(at)
    }

    #[inline(never)]
    fn attribute(
        &mut self,
        owner: NodeId,
        tag: (usize, QName),
        start: usize,
        seen: &mut AttributesSeen,
    ) -> ScanResult<usize> {
        let source = self.source;
        let (name, key) = keyed_qname(self.checked, start, "attribute").map_err(|fault| match byte(source, start) {
            0 => self.tag_fault(tag.0, tag.1, start),
            _ => fault,
        })?;
        let (value_start, quote) = match source.get(name.end..name.end + 2) {
            Some(b"=\"") => (name.end + 2, b'"'),
            _ => self.value_start(start, name.end)?,
        };
        let (value_end, encoded) = self.value_end(start, name, value_start, quote)?;
        self.keep(owner, start, (name, key), (span(value_start, value_end), encoded), seen)?;
        Ok(value_end + 1)
    }

    /// Keeps an attribute. `name`: with the key of what stands before the colon. `value`: and whether it has to be decoded.
    #[inline(always)]
    fn keep(
        &mut self,
        owner: NodeId,
        start: usize,
        (name, key): (QName, PackedName),
        (value, encoded): (ByteRange, bool),
        seen: &mut AttributesSeen,
    ) -> ScanResult<()> {
        if self.names.len() >= self.limits.attributes_max {
            let limit = self.limits.attributes_max;
            return Err(Fault::limit(start, "attributes_max", limit, "more attributes on one element"));
        }
        seen.add(key);
        self.names.push(span(start, name.end));
        if key.first == XMLNS && (name.colon == start + 5 || name.end == start + 5) {
            self.declaration(owner, start, name, value, encoded)?;
        } else {
            self.record(owner, start, (name, key), value, encoded);
        }
        Ok(())
    }

    /// Returns the start of the value of the attribute whose name ends at `at`, and its quote.
    #[inline(never)]
    fn value_start(&self, attribute: usize, name_end: usize) -> ScanResult<(usize, u8)> {
        let source = self.source;
        let at = skip_spaces(source, name_end);
        if byte(source, at) != b'=' {
            let reason = format!("the attribute {:?} has no value", shown(&source[attribute..name_end]));
            return Err(Fault::malformed(attribute, reason));
        }
        let at = skip_spaces(source, at + 1);
        let quote = byte(source, at);
        if !matches!(quote, b'"' | b'\'') {
            let attribute = shown(&source[attribute..name_end]);
            let reason = format!("the value of the attribute {attribute:?} is not quoted");
            return Err(Fault::malformed(at, reason));
        }
        Ok((at + 1, quote))
    }

    /// Returns the end of the attribute value at `start` and whether it has to be decoded.
    #[inline(always)]
    fn value_end(&self, attribute: usize, name: QName, start: usize, quote: u8) -> ScanResult<(usize, bool)> {
        let source = self.source;
        let mut at = start;
        let mut encoded = false;
        loop {
            at = value_stop(source, at);
            let b = byte(source, at);
            if b == quote {
                return Ok((at, encoded));
            }
            match b {
                b'"' | b'\'' => at += 1,
                b'\t' | b'\n' | b'\r' => {
                    encoded = true;
                    at += 1;
                }
                b'&' => {
                    encoded = true;
                    at = references::check(self.checked, at, self.undeclared())?;
                }
                _ => {
                    let attribute = shown(&source[attribute..name.end]);
                    let reason = match b {
                        b'<' => format!("\"<\" may not stand in the value of the attribute {attribute:?}"),
                        _ => format!("the message ends inside the value of the attribute {attribute:?}"),
                    };
                    return Err(Fault::malformed(at, reason));
                }
            }
        }
    }

    /// Keeps an attribute that declares no namespace. `name`: with the key of what stands before the colon.
    #[inline(always)]
    pub(crate) fn record(
        &mut self,
        owner: NodeId,
        start: usize,
        (name, key): (QName, PackedName),
        value: ByteRange,
        encoded: bool,
    ) {
        let mut attribute = NO_ATTRIBUTE;
        if self.options.attributes {
            attribute = self.document.attributes.len() as u32;
            let local = self.local(start, name, key);
            let name_id = Name { namespace: NamespaceId::NONE, local };
            let qname = span(start, name.end);
            self.document.attributes.push(Attribute { name: name_id, encoded, owner, qname, value });
        }
        if name.colon != 0 {
            let (prefix, local) = (span(start, name.colon), span(name.colon + 1, name.end));
            self.prefixed.push(Prefixed { prefix, local, attribute });
        }
    }

    /// Returns the id of the local part of the name at `start`.
    #[inline(always)]
    fn local(&self, start: usize, name: QName, key: PackedName) -> LocalId {
        match name.colon {
            0 => self.vocabulary.local_of(key, &self.source[start..name.end]),
            colon => self.vocabulary.local(&self.source[colon + 1..name.end]),
        }
    }

    #[inline(never)]
    pub(crate) fn declaration(
        &mut self,
        owner: NodeId,
        start: usize,
        name: QName,
        uri: ByteRange,
        encoded: bool,
    ) -> ScanResult<()> {
        let prefix = if name.colon == 0 { span(start, start) } else { span(name.colon + 1, name.end) };
        let namespace = self.bindings.declare(self.checked.text, self.vocabulary, prefix, uri, encoded)?;
        self.document.declarations.push(NamespaceDeclaration { owner, prefix, uri, namespace });
        Ok(())
    }

    #[inline(always)]
    fn element_name(&mut self, start: usize, name: QName, key: PackedName) -> ScanResult<Name> {
        let namespace = match name.colon {
            0 => self.bindings.default,
            colon => self.bindings.resolve(self.checked.text, span(start, colon))?.id,
        };
        Ok(Name { namespace, local: self.local(start, name, key) })
    }

    /// Rejects a tag in which two attributes have the same name as written.
    #[inline(always)]
    pub(crate) fn unique_names(&mut self) -> ScanResult<()> {
        let source = self.source;
        if self.names.len() > COMPARED_MAX {
            return self.unique_among_many();
        }
        for (index, &second) in self.names.iter().enumerate().skip(1) {
            let length = second.end - second.start;
            let first_byte = source[second.start as usize];
            for &first in &self.names[..index] {
                if first.end - first.start == length
                    && source[first.start as usize] == first_byte
                    && first.of(source) == second.of(source)
                {
                    return Err(duplicate(source, second));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn unique_among_many(&mut self) -> ScanResult<()> {
        let source = self.source;
        // Sorting keeps hostile names from making this quadratic, whatever they are.
        self.names.sort_unstable_by(|a, b| a.of(source).cmp(b.of(source)).then(a.start.cmp(&b.start)));
        let pairs = self.names.windows(2).filter(|pair| pair[0].of(source) == pair[1].of(source));
        match pairs.map(|pair| pair[1]).min_by_key(|name| name.start) {
            Some(name) => Err(duplicate(source, name)),
            None => Ok(()),
        }
    }

    /// Gives the attributes with prefixes their namespaces; no two of them may have the same expanded name.
    #[inline(never)]
    pub(crate) fn resolve_prefixed(&mut self) -> ScanResult<()> {
        let source = self.source;
        let mut resolved: Vec<(Prefixed, Namespace)> = Vec::new();
        let several = self.prefixed.len() > 1;
        for prefixed in self.prefixed.drain(..) {
            let namespace = self.bindings.resolve(self.checked.text, prefixed.prefix)?;
            if prefixed.attribute != NO_ATTRIBUTE {
                self.document.attributes[prefixed.attribute as usize].name.namespace = namespace.id;
            }
            if several {
                resolved.push((prefixed, namespace));
            }
        }
        if resolved.len() > COMPARED_MAX {
            resolved.sort_by(|(a, a_namespace), (b, b_namespace)| {
                let by_name = a.local.of(source).cmp(b.local.of(source));
                by_name.then(a_namespace.order_key().cmp(&b_namespace.order_key()))
            });
        }
        let reach = if resolved.len() > COMPARED_MAX { 1 } else { resolved.len() };
        for (index, (second, second_namespace)) in resolved.iter().enumerate() {
            for (first, first_namespace) in &resolved[index.saturating_sub(reach)..index] {
                if first.local.of(source) == second.local.of(source)
                    && first_namespace.same(second_namespace, self.checked.text)
                {
                    return Err(duplicate_expanded(source, first, second));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn tag_fault(&self, start: usize, name: QName, at: usize) -> Fault {
        let source = self.source;
        let element = shown(&source[start + 1..name.end]);
        let reason = match byte(source, at) {
            0 => format!("the message ends inside the start tag of {element:?}"),
            b'/' => format!("\"/\" in the start tag of {element:?} must be followed by \">\""),
            _ if at == name.end => {
                format!("{} may not follow the name of the element {element:?}", describe_input(source, at))
            }
            _ => format!(
                "white space must separate the attributes in the start tag of {element:?}, found {}",
                describe_input(source, at)
            ),
        };
        Fault::malformed(at, reason)
    }

    #[cold]
    fn end_tag_fault(&self, start: usize, open: OpenElement) -> Fault {
        let source = self.source;
        let expected = shown(open.name.of(source));
        let name = match qname(self.checked, start + 2, "end tag") {
            Ok(name) => name,
            Err(fault) => return fault,
        };
        let written = &source[start + 2..name.end];
        let at = skip_spaces(source, name.end);
        match byte(source, at) {
            0 => Fault::malformed(at, format!("the message ends inside an end tag, where {expected:?} is open")),
            _ if written != open.name.of(source) => {
                let written = shown(written);
                Fault::malformed(start, format!("the end tag {written:?} does not match the start tag {expected:?}"))
            }
            _ => Fault::malformed(at, format!("{} may not stand in an end tag", describe_input(source, at))),
        }
    }
}

#[cold]
fn duplicate(source: &[u8], name: ByteRange) -> Fault {
    let reason = format!("the attribute {:?} stands twice in one tag", shown(name.of(source)));
    Fault::malformed(name.start as usize, reason)
}

#[cold]
fn duplicate_expanded(source: &[u8], first: &Prefixed, second: &Prefixed) -> Fault {
    let written = |name: &Prefixed| shown(&source[name.prefix.start as usize..name.local.end as usize]);
    let reason = format!("the attributes {:?} and {:?} have the same expanded name", written(first), written(second));
    Fault::malformed(second.prefix.start as usize, reason)
}
